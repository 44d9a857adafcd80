//! The connection to the database, from the configuration.

use std::path::Path;

use ::database::{DatabaseSettings, DatabaseUrl, SchemaKind};
use config::database::{DatabaseSchema, DatabaseSection};
use config::report::Diagnostic;
use wire::hash::HashKey;

/// Returns the settings of the connection. `state`: the folder of the file with how far this node is.
///
/// # Errors
/// What is wrong with the URL, or with the certificates of TLS.
pub fn connection(
    section: &DatabaseSection,
    key: HashKey,
    state: Option<&Path>,
) -> Result<DatabaseSettings, Diagnostic> {
    // The check of the configuration has ensured that there is one.
    let text = section.location().map(|url| url.text()).unwrap_or_default();
    let place = section.url.place.as_ref().or(section.url_file.place.as_ref());
    let url = DatabaseUrl::parse(text).map_err(|fault| Diagnostic::at(place, fault))?;
    let has_tls = section.tls.value.unwrap_or_else(|| !url.is_local());
    let tls = has_tls.then(|| tls::verifying_client(section.ca_file.value.as_deref())).transpose();
    Ok(DatabaseSettings {
        tls: tls.map_err(|fault| Diagnostic::at(section.ca_file.place.as_ref(), fault).outside())?,
        url,
        schema: match section.schema.value {
            DatabaseSchema::Nomen => SchemaKind::Own,
            DatabaseSchema::PowerDns => SchemaKind::PowerDns,
        },
        poll: section.poll(),
        node: section.node_name(),
        timeout: section.timeout.0,
        keep_changes: section.keep_changes.0,
        key,
        hosts: None,
        state: state.map(Path::to_owned),
    })
}
