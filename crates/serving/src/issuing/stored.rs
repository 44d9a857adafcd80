//! Work on what is stored of certificates, off the threads of the runtime.

use acme::AcmeStore;
use tokio::task::spawn_blocking;

/// Runs work that waits for the disk.
pub(super) async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    store: &AcmeStore,
    work: impl FnOnce(&AcmeStore) -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    let store = store.clone();
    match spawn_blocking(move || work(&store)).await {
        Ok(done) => done.map_err(|fault| fault.to_string()),
        // The hook reports a panic.
        Err(fault) => Err(fault.to_string()),
    }
}
