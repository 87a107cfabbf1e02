//! Functions of the C with a loop over elements, before the kernel that calls them.

/// A function with a loop. Two that are equal are printed once.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Function {
    /// The types of the pointers p0, p1 and so on.
    pub parameters: Vec<String>,
    /// The statements for element `i` of `n`.
    pub lines: Vec<String>,
}

impl Function {
    /// Prints the function, under a name.
    pub(super) fn print(&self, name: &str) -> String {
        let mut out = format!("KBC_INSIDE void {name}_of(int64_t n");
        self.parameters.iter().enumerate().for_each(|(i, p)| out += &format!(", {p}p{i}"));
        out += ") {\n    KBC_LOOP\n    for (int64_t i = 0; i < n; ++i) {\n";
        self.lines.iter().for_each(|l| out += &format!("        {l}\n"));
        let typed: Vec<String> =
            self.parameters.iter().enumerate().map(|(i, p)| format!("{p}p{i}")).collect();
        let plain: Vec<String> = (0..self.parameters.len()).map(|i| format!("p{i}")).collect();
        out += "    }\n}\n";
        out + &format!(
            "KBC_FUSED_LOOP({name}, (int64_t n, {}), (n, {}))\n\n",
            typed.join(", "),
            plain.join(", ")
        )
    }
}
