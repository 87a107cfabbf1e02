//! Groups: the ranks of a mesh that differ only in the axes of a collective.

use kbc_ir::Name;
use kbc_ir::types::Mesh;
use kbc_machine::topology::DeviceId;

/// Returns the ranks of each group over some axes, in the order of the group. Groups are ordered by
/// their first ranks.
pub(crate) fn groups(mesh: &Mesh, over: &[Name]) -> Vec<Vec<u64>> {
    let mut axes = vec![];
    let mut stride = 1;
    for axis in mesh.axes.iter().rev() {
        axes.push((&axis.name, axis.size, stride));
        stride *= axis.size;
    }
    axes.reverse();
    let along = |from: Vec<u64>, (size, stride): (u64, u64)| -> Vec<u64> {
        from.into_iter().flat_map(|at| (0..size).map(move |i| at + i * stride)).collect()
    };
    let inside = over.iter().filter_map(|name| axes.iter().find(|a| a.0 == name)).map(|a| (a.1, a.2));
    let outside = axes.iter().filter(|a| !over.contains(a.0)).map(|a| (a.1, a.2));
    let members = inside.fold(vec![0], along);
    let firsts = outside.fold(vec![0], along);
    firsts.into_iter().map(|first| members.iter().map(|m| first + m).collect()).collect()
}

/// Returns the devices of each group. Rank i is on device i.
pub(crate) fn device_groups(mesh: &Mesh, over: &[Name]) -> Vec<Vec<DeviceId>> {
    let device = |rank: u64| DeviceId(rank as u32);
    groups(mesh, over).into_iter().map(|group| group.into_iter().map(device).collect()).collect()
}
