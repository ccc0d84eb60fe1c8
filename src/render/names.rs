//! `kind.group/name`, lower-case, as kubectl prints names (`cli-runtime/pkg/printers/name.go`): they can be pasted
//! back as arguments.

use std::io;

use super::look::Look;
use super::text::Line;
use crate::model::catalog::split_api_version;
use crate::model::object::ObjectRef;

/// How kubectl names an object.
pub fn name(reference: &ObjectRef) -> String {
    let kind = reference.kind.to_lowercase();
    match split_api_version(&reference.api_version) {
        ("", _) => format!("{kind}/{}", reference.name),
        (group, _) => format!("{kind}.{group}/{}", reference.name),
    }
}

/// One name a line.
pub fn write_names<'a>(
    out: &mut impl io::Write,
    references: impl IntoIterator<Item = &'a ObjectRef>,
) -> io::Result<()> {
    for reference in references {
        Line::new().plain(name(reference)).write(out, Look::PLAIN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;
    use crate::model::testing::graph;

    #[test]
    fn names_are_kubectls() {
        let graph = graph("Pod/a\nDeployment/b\nClusterRole/system:c");
        let references: Vec<ObjectRef> = graph.objects().iter().map(|object| object.reference()).collect();
        assert_eq!(
            written(|out| write_names(out, &references)),
            "clusterrole.rbac.authorization.k8s.io/system:c\ndeployment.apps/b\npod/a\n"
        );
    }
}
