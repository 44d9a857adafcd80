//! A copy of the root zone for resolvers, queried instead of the root servers (RFC 8806): `auth-zone` of
//! Unbound, and conflicts with other settings. Mirror zones of BIND are in `bind::zones`.

use std::path::Path;

use crate::files::join;
use crate::model::{Keys, Nomen, Section, Setting};
use crate::network::Network;
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, path_text, server_with_port};

/// Why a file of such a zone is not read.
const WHY_FILES_ARE_NOT_READ: &str =
    "nomen takes the copy from its servers at the start, and keeps it in `state-dir`";
/// nomen does this by default.
const ANYWAY: &str = "nomen does so anyway";

/// Converts an `auth-zone` with `for-downstream: no`, if it is the root.
pub(crate) fn of_unbound(work: &mut Work, section: &Statement, name: &str, directory: &Path) {
    if name != "." {
        work.refuse_domain(name);
        return work.ledger.missing(section, "nomen keeps no zone but the root for its own recursion alone");
    }
    let is = |key| section.find(key).and_then(|found| units::switch(found.value()));
    if is("for-upstream") == Some(false) {
        return work.ledger.unneeded(section, "it is neither for clients nor for recursion");
    }
    let primaries: Vec<&Statement> =
        section.block().iter().filter(|found| ["primary", "master"].contains(&found.key())).collect();
    let file = section.find("zonefile");
    if primaries.is_empty() && (file.is_none() || section.find("url").is_some()) {
        let why = "nomen fetches no zones over HTTP: write `local-root = true` into [resolver], which takes \
                   it by transfer";
        return work.ledger.missing(section, why);
    }
    for statement in primaries.iter() {
        match server_with_port(statement.value()) {
            Some(server) => {
                work.recurse().add("local-root-primaries", server);
                work.in_key(statement, Section::Resolver, "local-root-primaries");
            }
            None => work.ledger.missing(statement, "nomen takes primaries by their addresses"),
        }
    }
    match file {
        Some(found) if primaries.is_empty() => {
            let path = join(directory, found.value());
            work.zone_files.push((path.clone(), Some(directory.to_owned())));
            work.recurse().text("local-root-file", path_text(&path));
            work.in_key(found, Section::Resolver, "local-root-file");
        }
        found => found.into_iter().for_each(|found| work.ledger.unneeded(found, WHY_FILES_ARE_NOT_READ)),
    }
    if work.recurse().get("local-root-primaries").is_none() && work.recurse().get("local-root-file").is_none()
    {
        return work.ledger.missing(section, "none of its primaries can be asked by nomen");
    }
    if !primaries.is_empty() {
        work.keep_state();
    }
    work.recurse().switch("local-root", true);
    for statement in section.block() {
        let on = units::switch(statement.value());
        match statement.key() {
            "name" | "for-downstream" | "for-upstream" => {
                work.in_key(statement, Section::Resolver, "local-root")
            }
            "url" => work.ledger.missing(statement, "nomen fetches no zones over HTTP"),
            "fallback-enabled" if on == Some(true) => work.ledger.unneeded(statement, ANYWAY),
            "fallback-enabled" => {
                work.ledger.differs(
                    statement,
                    "while there is no copy that may be used, nomen asks the root servers",
                );
            }
            "zonemd-check" | "zonemd-reject-absence" if on == Some(true) => {
                work.ledger.unneeded(statement, ANYWAY)
            }
            "zonemd-check" | "zonemd-reject-absence" => {
                work.ledger.differs(statement, "nomen uses the copy only if its digest (ZONEMD) is right");
            }
            "allow-notify" if Network::parse(statement.value()).is_some() => {
                work.ledger.missing(statement, "nomen takes NOTIFY from the primaries of the copy alone");
            }
            _ => {}
        }
    }
}

/// Removes the copy of the root unless names are resolved starting at the root servers.
pub(crate) fn mend(nomen: &mut Nomen, words: &mut Vec<String>) {
    let is_root = |keys: &Keys| keys.get("domain") == Some(&Setting::Text(".".into()));
    let forwarded = nomen.forwards.iter().any(is_root);
    let served = nomen.zones.iter().any(|zone| zone.name == ".");
    let Some(resolver) = &mut nomen.resolver else { return };
    let own = resolver.get("root-servers").is_some()
        && resolver.get("local-root-primaries").is_none()
        && resolver.get("local-root-file").is_none();
    let iterates = resolver.get("iterate") != Some(&Setting::Switch(false));
    let why = match () {
        () if resolver.get("local-root").is_none() => return,
        () if forwarded || !iterates => "nothing is asked of the root servers",
        () if served => "the root zone is served to clients",
        () if own => "the root servers are others than those of the public DNS",
        () => return,
    };
    for key in ["local-root", "local-root-primaries", "local-root-file"] {
        resolver.remove(key);
    }
    words.push(format!("no copy of the root zone is kept for recursion: {why}"));
}
