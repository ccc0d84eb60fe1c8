//! `version`: of the plugin, and of the server that it talks to.

use serde_json::{Value, json};

use super::session::Session;
use crate::cli::{Cli, VersionArgs};
use crate::cluster::request::Request;
use crate::error::{ExitCode, Failure};
use crate::render::notes;

/// Runs `version`.
///
/// # Errors
/// The server does not answer (unless `--client`), or standard output cannot be written to.
pub async fn run(cli: &Cli, args: &VersionArgs) -> Result<ExitCode, Failure> {
    let client = env!("CARGO_PKG_VERSION");
    if args.client {
        // Asks nobody: it must work where there is no cluster, and where a kubeconfig is broken.
        print(args, client, None)?;
        return Ok(ExitCode::Done);
    }
    let answer = match Session::open(cli).await {
        Ok(session) => server_version(&session).await,
        Err(failure) => Err(failure),
    };
    print(args, client, answer.as_deref().ok())?;
    answer.map(|_| ExitCode::Done)
}

fn print(args: &VersionArgs, client: &str, server: Option<&str>) -> Result<(), Failure> {
    super::session::print_stdout(|out| match args.output {
        Some(_) => {
            let document = json!({
                "apiVersion": "cascade/v1", "kind": "Version", "clientVersion": format!("v{client}"), "serverVersion": server,
            });
            crate::render::json::write_json(out, &document)
        }
        None => notes::write_versions(out, client, server),
    })
}

async fn server_version(session: &Session) -> Result<String, Failure> {
    let answer = session.cluster.send(Request::get("/version")).await.map_err(Failure::from)?;
    let version: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
}
