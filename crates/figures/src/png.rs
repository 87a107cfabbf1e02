//! PNG output: rasterises SVG with resvg, using the embedded font and no other.

use crate::Fault;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, OnceLock};

/// The largest width, in pixels.
const MOST: u32 = 16_384;

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut db = fontdb::Database::new();
        db.load_font_data(dejavu::sans::regular().to_vec());
        db.load_font_data(dejavu::sans::bold().to_vec());
        db.set_sans_serif_family("DejaVu Sans");
        Arc::new(db)
    };
    FONTS.get_or_init(load).clone()
}

/// Renders an SVG of this size (in SVG units) as a PNG of this width in pixels.
pub fn render(svg: &str, size: (f64, f64), width: u32) -> Result<Vec<u8>, Fault> {
    if width == 0 || width > MOST {
        return Err(Fault::new(format!("a picture is 1 to {MOST} pixels wide, and {width} were asked for")));
    }
    let scale = f64::from(width) / size.0;
    let height = (size.1 * scale).round() as u32;
    let failed = |why: String| Fault::new(format!("this figure makes no picture: {why}"));
    let options = Options { fontdb: fonts(), font_family: "DejaVu Sans".into(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| failed(e.to_string()))?;
    let mut pixels = Pixmap::new(width, height.max(1)).ok_or_else(|| failed("it is too large".into()))?;
    // The height is a whole number of pixels, and the card must cover the last row completely.
    let (sx, sy) = (scale as f32, (f64::from(pixels.height()) / size.1) as f32);
    resvg::render(&tree, Transform::from_scale(sx, sy), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| failed(e.to_string()))
}
