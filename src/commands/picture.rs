//! What `tree` shows of its subject, and in which format. The live cluster, a saved one and a watch share it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::flags::policy;
use super::subject::Subject;
use crate::cli::{TreeArgs, TreeFormat};
use crate::error::Failure;
use crate::model::filter::KindFilter;
use crate::model::forecast::{Forecast, forecast};
use crate::model::object::{Columns, Object, Timestamp, Uid};
use crate::render::look::Look;
use crate::render::tree::{TreeOptions, diagram, shown, shown_upward, write_owners, write_tree};
use crate::render::{dot, json, mermaid, names};

/// What is shown of a subject.
pub struct Picture {
    /// The roots were found, not named.
    forest: bool,
    /// Where the picture begins: the targets; with `--owners` the topmost owners.
    roots: Vec<usize>,
    /// All objects in it.
    objects: Vec<usize>,
    /// What the filter lets through; none without a filter.
    matching: Option<BTreeSet<usize>>,
    /// What a delete would do.
    plan: Option<Forecast>,
}

impl Picture {
    /// Chooses what to show.
    ///
    /// # Errors
    /// A filter names a kind that there is not.
    pub fn new(args: &TreeArgs, subject: &Subject, forest: bool) -> Result<Self, Failure> {
        let graph = &subject.graph;
        let filter = KindFilter::new(&args.include, &args.exclude, &subject.catalog)?;
        let matching = filter.matching(graph);
        let plan = args.policy.map(|chosen| forecast(graph, &subject.targets, policy(chosen)));
        let (roots, objects) = if args.owners {
            shown_upward(graph, &subject.targets, args.depth)
        } else if forest {
            // Nobody named these roots: those with nothing to show below them are filtered out like all else.
            let objects = shown(graph, &subject.targets, args.depth, matching.as_ref(), true);
            let visible: BTreeSet<usize> = objects.iter().copied().collect();
            (subject.targets.iter().copied().filter(|root| visible.contains(root)).collect(), objects)
        } else {
            let objects = shown(graph, &subject.targets, args.depth, matching.as_ref(), false);
            (subject.targets.clone(), objects)
        };
        Ok(Self { forest, roots, objects, matching, plan })
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects in it.
    pub fn objects<'s>(&self, subject: &'s Subject) -> Vec<&'s Object> {
        self.objects.iter().map(|index| subject.graph.object(*index)).collect()
    }

    /// Writes it in the format that was asked for.
    pub fn write(
        &self,
        out: &mut impl io::Write,
        look: Look,
        args: &TreeArgs,
        subject: &Subject,
        columns: &BTreeMap<Uid, Columns>,
        now: Timestamp,
    ) -> io::Result<()> {
        let graph = &subject.graph;
        let document = || json::tree_document(graph, &self.roots, &self.objects, columns, self.plan.as_ref());
        let options = TreeOptions {
            forecast: self.plan.as_ref(),
            forest: self.forest,
            expand: args.expand,
            depth: args.depth,
            wide: args.output == TreeFormat::Wide,
            everywhere: args.target.all_namespaces,
            no_headers: args.no_headers,
            labels: &args.label_columns,
            matching: self.matching.as_ref(),
            ..TreeOptions::new(now, columns)
        };
        let drawn = || diagram(graph, &subject.targets, &options, args.owners);
        match args.output {
            TreeFormat::Json => json::write_json(out, &document()),
            TreeFormat::Yaml => json::write_yaml(out, &document()),
            TreeFormat::Dot => dot::write_dot(out, &drawn()),
            TreeFormat::Mermaid => mermaid::write_mermaid(out, &drawn()),
            TreeFormat::Name => {
                let accepted =
                    |index: &&usize| self.matching.as_ref().is_none_or(|matching| matching.contains(*index));
                let references: Vec<_> = self
                    .objects
                    .iter()
                    .filter(accepted)
                    .map(|index| graph.object(*index).reference())
                    .collect();
                names::write_names(out, &references)
            }
            TreeFormat::Tree | TreeFormat::Wide if args.owners => {
                write_owners(out, look, graph, &subject.targets, &options)
            }
            TreeFormat::Tree | TreeFormat::Wide => write_tree(out, look, graph, &subject.targets, &options),
        }
    }
}
