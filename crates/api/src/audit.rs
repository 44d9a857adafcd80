//! Lines in the log and the audit file: one for each request that may change something, and for refused
//! tokens.

use std::net::IpAddr;

use hyper::{Method, StatusCode};
use telemetry::repeated::{admit_refusal, log_repeated};
use telemetry::trail::{audit, has_audit_file};
use tracing::info;

use wire::ZoneName;
use zone_manager::changes::{Changes, EditEnd, EditFault, ZoneEdit};

use crate::request::ChangeNote;

/// Makes an edit of a zone. The part that makes or refuses it also logs it, so the request needs no line.
pub(crate) async fn edit_zone(
    changes: &Changes,
    apex: &ZoneName,
    edit: ZoneEdit,
    note: &ChangeNote,
) -> EditEnd {
    let Ok(end) = changes.edit(apex, edit).await else { return Err(EditFault::Stopping) };
    note.logged();
    end
}

/// A request that may change something.
#[derive(Debug)]
pub(crate) struct AuditedRequest<'a> {
    pub(crate) token: &'a str,
    pub(crate) client: IpAddr,
    pub(crate) method: &'a Method,
    /// The path as it was sent.
    pub(crate) path: &'a str,
    pub(crate) note: &'a ChangeNote,
}

impl AuditedRequest<'_> {
    /// Writes its line, with the outcome: the status, and the reason of a refusal.
    pub(crate) fn log(&self, status: StatusCode, fault: Option<&str>) {
        let AuditedRequest { token, client, method, path, note } = self;
        let noted = note.noted();
        let zone = noted.zone.map(|zone| zone.to_string());
        let (from, to) = (noted.before.map(|serial| serial.0), noted.after.map(|serial| serial.0));
        let status = status.as_u16();
        info!(token, %client, %method, path, zone, from, to, status, reason = fault, "API request");
        audit!(token, %client, %method, path, zone, from, to, status, reason = fault, "API request");
    }
}

/// Writes the line of a request whose token is refused; `token` is the name of one that has expired.
pub(crate) fn token_refused(client: IpAddr, path: &str, token: Option<&str>) {
    let reason = if token.is_some() { "the token has expired" } else { "the token is wrong" };
    let about = ("api-token", "");
    log_repeated!(warn, WARN, about, "API request of {client} refused: {reason}");
    if has_audit_file() && admit_refusal(client, "API token") {
        audit!(token, %client, path, reason, "API token refused");
    }
}
