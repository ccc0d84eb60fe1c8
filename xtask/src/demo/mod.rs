//! The plugin at work on a real control plane: one story a file, told with the commands that a user types.
//!
//! A story is also a test: a command that ends otherwise than the story says, or does not say what it must, fails
//! the demo.

mod deployment;
mod finalizer;
mod job;
pub(crate) mod stage;
pub(crate) mod webhook;

use std::thread;

use clap::Args;
use control_plane::{ControlPlane, Error, Options};

use crate::{say, steps};
use stage::Stage;

/// The options of `cargo xtask demo`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Leave the control plane running until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Tell one story only.
    #[arg(long, value_name = "NAME")]
    story: Option<String>,
}

/// Something that happens to people, and what the plugin does about it.
struct Story {
    /// What `--story` takes; also the namespace in which it plays.
    name: &'static str,
    title: &'static str,
    tell: fn(&Stage<'_>) -> Result<(), Error>,
}

const STORIES: [Story; 4] = [deployment::STORY, webhook::STORY, job::STORY, finalizer::STORY];

/// Tells the stories.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let told: Vec<&Story> = match &arguments.story {
        None => STORIES.iter().collect(),
        Some(name) => vec![find(name)?],
    };
    steps::step("build the plugin", || steps::cargo(&["build", "--quiet", "--package", "kubectl-cascade"]))?;
    let mut started = None;
    steps::step("start a control plane", || {
        started = Some(ControlPlane::start(Options::default())?);
        Ok(())
    })?;
    let Some(plane) = started else { return Ok(()) };

    let mut outcome = Ok(());
    for (number, story) in told.iter().enumerate() {
        say(&format!("\n=== {} of {}: {}", number + 1, told.len(), story.title))?;
        outcome = Stage::new(&plane, story.name).and_then(|stage| (story.tell)(&stage));
        if let Err(error) = &outcome {
            outcome = Err(Error::new(format!("the story \"{}\" went wrong: {error}", story.name)));
            break;
        }
    }
    if arguments.keep {
        leave_open(&plane, &outcome)?;
    }
    outcome
}

fn find(name: &str) -> Result<&'static Story, Error> {
    STORIES.iter().find(|story| story.name == name).ok_or_else(|| {
        let names = STORIES.map(|story| story.name).join(", ");
        Error::new(format!("there is no story \"{name}\"")).with_hint(format!("one of {names}"))
    })
}

/// Waits for Ctrl-C, which ends this process; the servers then end by themselves.
fn leave_open(plane: &ControlPlane, outcome: &Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = outcome {
        say(&format!("\nerror: {error}"))?;
    }
    say("\nThe control plane is yours until Ctrl-C. In another terminal:\n")?;
    say(&format!("export KUBECONFIG={}", plane.kubeconfig_path().display()))?;
    say(&format!("export PATH={}:$PATH", stage::programs(plane)))?;
    loop {
        thread::park();
    }
}
