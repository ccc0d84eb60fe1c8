//! The floor: every list of a namespace as the plugin asks for it, in parallel, raw, thrown away. Nothing that reads
//! the same can be faster.

use control_plane::Error;
use futures::StreamExt;
use kubectl_cascade::cluster::connect::{Cluster, ConnectionOptions};
use kubectl_cascade::cluster::request::Request;
use kubectl_cascade::cluster::{discovery, wire};

/// Lists everything in the namespace that is named.
pub fn run(words: &[String]) -> Result<(), Error> {
    let [namespace] = words else { return Err(Error::new("floor of which namespace?")) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(error.to_string()))?;
    runtime.block_on(lists(namespace))
}

async fn lists(namespace: &str) -> Result<(), Error> {
    let failed = |failure: kubectl_cascade::error::Failure| Error::new(failure.message);
    let cluster = Cluster::connect(&ConnectionOptions::default()).await.map_err(failed)?;
    let catalog = discovery::catalog(&cluster).await.map_err(failed)?;
    let paths: Vec<String> = catalog
        .preferred()
        .filter(|resource| resource.namespaced && resource.can("list"))
        .map(|resource| resource.collection_path(Some(namespace)))
        .collect();
    let cluster = &cluster;
    futures::stream::iter(paths)
        .for_each_concurrent(32, |path| async move {
            let request = Request::get(path).accept(wire::ACCEPT_METADATA_LIST);
            if let Ok((_, mut chunks)) = cluster.stream(request).await {
                while let Some(Ok(_)) = chunks.next().await {}
            }
        })
        .await;
    Ok(())
}
