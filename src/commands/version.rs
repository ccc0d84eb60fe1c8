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
    let session = Session::open(cli).await;
    let (server, trouble) = match &session {
        _ if args.client => (None, None),
        Err(failure) => (None, Some(failure.clone())),
        Ok(session) => match server_version(session).await {
            Ok(version) => (Some(version), None),
            Err(failure) => (None, Some(failure)),
        },
    };
    print(args, client, server.as_deref())?;
    match trouble {
        Some(failure) => Err(failure),
        None => Ok(ExitCode::Done),
    }
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
