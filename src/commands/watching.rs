//! `tree --watch`: the same picture, drawn again whenever the cluster changes it, until its targets are gone.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::picture::Picture;
use super::session::Session;
use super::subject::Subject;
use crate::cli::{TreeArgs, TreeFormat};
use crate::cluster::watch::{self, Scope};
use crate::cluster::{columns, metadata};
use crate::error::{ExitCode, Failure};
use crate::model::follow::{Fresh, Scenery};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, Timestamp};
use crate::model::progress::Observation;
use crate::render::look::Look;
use crate::render::screen::{Between, Screen};
use crate::render::{gaps, notes};

/// Between two pictures at least.
const BETWEEN: Duration = Duration::from_millis(500);
/// On a terminal ages grow, too.
const AGEING: Duration = Duration::from_secs(5);
/// Between two notes that the connection is lost.
const BETWEEN_LOSSES: Duration = Duration::from_secs(30);
/// So many kinds are watched: each costs a connection.
const MOST_WATCHES: usize = 192;

/// Watches until the targets are gone; a forest for ever.
///
/// # Errors
/// A filter names a kind that there is not; standard output cannot be written to.
pub async fn run(
    session: &Session,
    args: &TreeArgs,
    mut subject: Subject,
    forest: bool,
) -> Result<ExitCode, Failure> {
    let targets: Vec<Object> =
        subject.targets.iter().map(|target| subject.graph.object(*target).clone()).collect();
    if targets.is_empty() && !forest {
        session.note(|out| notes::write_nothing_found(out, None));
        return Ok(ExitCode::Done);
    }
    let (scopes, unwatched) = scopes(&subject, if forest { &[] } else { &targets });
    let mut observations = open(session, scopes);
    session.note(|out| gaps::write_gaps(out, session.stderr, &subject.graph.snapshot().gaps));
    if !unwatched.is_empty() {
        session.note(|out| notes::write_unwatched(out, session.stderr, &unwatched));
    }

    let mut canvas = Canvas::new(session, args);
    let mut fresh = Fresh::default();
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let picture = Picture::new(args, &subject, forest)?;
        let wanted = picture.objects(&subject);
        let columns = columns::columns(&session.cluster, &wanted).await;
        let scenery =
            Scenery { shown: (!forest).then(|| wanted.iter().map(|object| object.uid.clone()).collect()) };
        let draw = |canvas: &mut Canvas<'_>| {
            canvas.draw(|out, look, now| picture.write(out, look, args, &subject, &columns, now))
        };
        if !draw(&mut canvas)? {
            return Ok(ExitCode::Done);
        }
        loop {
            tokio::select! {
                _ = &mut interrupt => return Ok(ExitCode::Interrupted),
                Some(observation) = observations.recv() => {
                    canvas.tell(&observation);
                    fresh.observe(observation, &subject.graph, &scenery);
                    while let Ok(observation) = observations.try_recv() {
                        canvas.tell(&observation);
                        fresh.observe(observation, &subject.graph, &scenery);
                    }
                }
                () = tokio::time::sleep(canvas.pause(fresh.is_dirty())) => {
                    if fresh.is_dirty() {
                        break;
                    }
                    if canvas.screen.is_in_place() && !draw(&mut canvas)? {
                        return Ok(ExitCode::Done);
                    }
                }
            }
        }
        refresh(session, args, &mut subject, &mut fresh).await;
        subject.targets = if forest {
            subject.graph.roots()
        } else {
            targets.iter().filter_map(|target| subject.graph.index_of(target)).collect()
        };
        if subject.targets.is_empty() && !forest {
            canvas.screen.keep();
            session.note(|out| notes::write_gone(out, session.stderr, &targets));
            return Ok(ExitCode::Done);
        }
    }
}

/// Brings the graph up to date, and what metadata does not tell where a forecast needs it.
async fn refresh(session: &Session, args: &TreeArgs, subject: &mut Subject, fresh: &mut Fresh) {
    let mut snapshot = std::mem::take(&mut subject.graph).into_snapshot();
    let pods = fresh.apply(&mut snapshot);
    if pods && args.policy.is_some() {
        let namespaces: BTreeSet<String> = snapshot
            .objects
            .iter()
            .filter(|object| object.is("", "Pod"))
            .filter_map(|object| object.namespace.as_deref().map(str::to_owned))
            .collect();
        for namespace in namespaces {
            snapshot
                .details
                .pods
                .extend(metadata::pods(&session.cluster, &subject.catalog, &namespace).await);
        }
    }
    subject.graph = OwnerGraph::new(snapshot);
}

/// What to watch: every kind that was listed, those with objects first, and the targets' own. And the kinds that are
/// too many to be watched.
fn scopes(subject: &Subject, targets: &[Object]) -> (Vec<Scope>, Vec<String>) {
    let snapshot = subject.graph.snapshot();
    let held: BTreeSet<String> = snapshot.objects.iter().map(|object| object.resource.qualified()).collect();
    let mut scopes: Vec<Scope> = Vec::new();
    for resource in subject.catalog.preferred() {
        if !resource.can("watch") || resource.is_event() {
            continue;
        }
        let qualified = resource.qualified();
        let listed = snapshot.versions.iter().filter(|((name, _), _)| *name == qualified);
        let mut own: Vec<Scope> = listed
            .map(|((_, namespace), version)| Scope {
                resource: resource.clone(),
                namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
                resource_version: version.clone(),
                objects: Vec::new(),
            })
            .collect();
        // A target's kind may not be listable: then the target itself is looked at.
        for target in targets.iter().filter(|target| target.resource.qualified() == qualified) {
            let holds = |scope: &&mut Scope| {
                scope.namespace.is_none() || scope.namespace.as_deref() == target.namespace.as_deref()
            };
            match own.iter_mut().find(holds) {
                Some(scope) => scope.objects.push(target.clone()),
                None => own.push(Scope {
                    resource: target.resource.clone(),
                    namespace: target.namespace.as_deref().map(str::to_owned),
                    resource_version: String::new(),
                    objects: vec![target.clone()],
                }),
            }
        }
        scopes.extend(own);
    }
    scopes.sort_by_key(|scope| (scope.objects.is_empty(), !held.contains(&scope.resource.qualified())));
    let rest = scopes.split_off(scopes.len().min(MOST_WATCHES));
    let unwatched: BTreeSet<String> = rest.iter().map(|scope| scope.resource.qualified()).collect();
    (scopes, unwatched.into_iter().collect())
}

fn open(session: &Session, scopes: Vec<Scope>) -> UnboundedReceiver<Observation> {
    let (sender, observations) = unbounded_channel();
    for scope in scopes {
        tokio::spawn(watch::watch(session.cluster.clone(), scope, sender.clone()));
    }
    observations
}

/// Where pictures go: each that differs from the one before in more than its ages.
struct Canvas<'s> {
    session: &'s Session,
    screen: Screen,
    between: Between,
    started: Timestamp,
    last: String,
    drawn: Instant,
    took: Duration,
    /// When a loss of the connection was last told.
    lost: Option<Instant>,
}

impl<'s> Canvas<'s> {
    fn new(session: &'s Session, args: &TreeArgs) -> Self {
        let between = match args.output {
            TreeFormat::Json => Between::Nothing,
            TreeFormat::Yaml => Between::Dashes,
            _ => Between::Time,
        };
        Self {
            session,
            screen: Screen::stdout(between == Between::Time),
            between,
            started: session.cluster.now(),
            last: String::new(),
            drawn: Instant::now(),
            took: Duration::ZERO,
            lost: None,
        }
    }

    /// Draws; false where nobody looks any more.
    fn draw(
        &mut self,
        write: impl Fn(&mut Vec<u8>, Look, Timestamp) -> io::Result<()>,
    ) -> Result<bool, Failure> {
        let began = Instant::now();
        let look = self.screen.look(self.session.stdout);
        let text = |now| -> io::Result<String> {
            let mut out = Vec::new();
            write(&mut out, look, now)?;
            Ok(String::from_utf8_lossy(&out).into_owned())
        };
        let drawn = text(self.started).and_then(|comparable| {
            if !self.screen.is_in_place() && comparable == self.last {
                return Ok(());
            }
            self.last = comparable;
            let now = self.session.cluster.now();
            self.screen.draw(&text(now)?, self.between, now)
        });
        self.drawn = Instant::now();
        self.took = began.elapsed();
        match drawn {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::error(format!("cannot write the output: {error}"))),
        }
    }

    /// Until the next picture. A large one is drawn less often.
    fn pause(&self, dirty: bool) -> Duration {
        let wanted = if dirty { BETWEEN.max(self.took * 3) } else { AGEING };
        wanted.saturating_sub(self.drawn.elapsed())
    }

    /// Says what cannot be watched any more. A server that is away breaks a watch a kind, and each comes back at its
    /// own time: that is one note.
    fn tell(&mut self, observation: &Observation) {
        match observation {
            Observation::Unreadable { gap, .. } => {
                self.screen.keep();
                let gaps = std::slice::from_ref(gap);
                self.session.note(|out| gaps::write_gaps(out, self.session.stderr, gaps));
            }
            Observation::Lost { gap, .. } if self.lost.is_none_or(|last| last.elapsed() > BETWEEN_LOSSES) => {
                self.lost = Some(Instant::now());
                self.screen.keep();
                self.session.note(|out| notes::write_lost(out, self.session.stderr, &gap.message));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::testing::snapshot;

    #[test]
    fn every_listed_kind_is_watched_those_with_objects_first_and_a_target_that_cannot_be_listed_by_itself() {
        let mut snapshot = snapshot("Pod/a\nJob/j");
        for kind in ["pods", "secrets", "events", "fleetings.example.test"] {
            snapshot.versions.insert((kind.to_owned(), "x".to_owned()), "7".to_owned());
        }
        let catalog = Arc::new(snapshot.catalog.clone());
        let subject = Subject {
            catalog,
            graph: OwnerGraph::new(snapshot),
            targets: Vec::new(),
            absent: Vec::new(),
            namespaces: Vec::new(),
        };
        let job = subject.graph.object(0).clone();
        let (scopes, unwatched) = scopes(&subject, &[job]);
        let shown: Vec<String> = scopes
            .iter()
            .map(|scope| {
                format!("{} {} {}", scope.resource.qualified(), scope.resource_version, scope.objects.len())
            })
            .collect();
        assert_eq!(shown, ["jobs.batch  1", "pods 7 0", "secrets 7 0"]);
        assert!(unwatched.is_empty());
    }
}
