//! NOTIFY(CDS) and NOTIFY(CSYNC) to the parent (RFC 9859): the DSYNC records with its targets, and the
//! messages.

use wire::{Name, NameBuf, Type};

/// Most targets that are notified.
pub(super) const MAX_TARGETS: usize = 4;
/// Most addresses of a target that are tried.
pub(super) const MAX_TARGET_ADDRESSES: usize = 4;

/// The label below which a parent zone has DSYNC records.
const DSYNC_LABEL: &[u8] = b"_dsync";
/// Scheme NOTIFY (RFC 9859 §6.2).
const SCHEME_NOTIFY: u8 = 1;
/// Bytes before the target: type, scheme, port.
const TARGET_AT: usize = 5;

/// A host that takes NOTIFY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotifyHost {
    pub(super) host: NameBuf,
    pub(super) port: u16,
}

/// Returns the names whose DSYNC records count, in their order (RFC 9859 §4.1): that for this child, and that
/// for all.
pub(super) fn dsync_names(zone: Name<'_>, parent: Name<'_>) -> Vec<NameBuf> {
    let Ok(of_all) = NameBuf::prepend(DSYNC_LABEL, parent) else { return Vec::new() };
    let of_child = NameBuf::replace_suffix(zone, parent.label_count(), of_all.as_name());
    of_child.ok().into_iter().chain([of_all]).collect()
}

/// Returns the targets for NOTIFY of a type among the data of DSYNC records, each once.
pub(super) fn targets_of(wanted: Type, rdatas: &[Vec<u8>]) -> Vec<NotifyHost> {
    let mut targets = Vec::new();
    for rdata in rdatas {
        let Some(([type_high, type_low, scheme, port_high, port_low], target)) =
            rdata.split_first_chunk::<TARGET_AT>()
        else {
            continue;
        };
        let rtype = Type(u16::from_be_bytes([*type_high, *type_low]));
        let port = u16::from_be_bytes([*port_high, *port_low]);
        let Ok(host) = Name::from_wire(target) else { continue };
        if rtype == wanted && *scheme == SCHEME_NOTIFY && port != 0 && !host.is_root() {
            let target = NotifyHost { host: host.to_buf(), port };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets.truncate(MAX_TARGETS);
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::testing::{dsync, name};

    #[test]
    fn the_label_is_between_the_child_and_the_parent() {
        let names = |zone: &str, parent: &str| -> Vec<String> {
            let names = dsync_names(name(zone).as_name(), name(parent).as_name());
            names.iter().map(ToString::to_string).collect()
        };
        assert_eq!(names("child.example", "example"), ["child._dsync.example.", "_dsync.example."]);
        assert_eq!(names("c.ise.mie.jp", "jp"), ["c.ise.mie._dsync.jp.", "_dsync.jp."]);
        assert_eq!(names("example", "."), ["example._dsync.", "_dsync."]);
        let label = "x".repeat(61);
        let long = format!("{label}.{label}.{label}.{label}.a");
        assert_eq!(names(&long, "a"), ["_dsync.a."], "a name that is too long does not exist");
    }

    #[test]
    fn targets_are_those_of_the_type_and_the_scheme() {
        let records = [
            dsync(Type::CDS, 1, 5359, "a.example"),
            dsync(Type::CSYNC, 1, 5359, "b.example"),
            dsync(Type::CDS, 2, 5359, "c.example"),
            dsync(Type::CDS, 1, 0, "d.example"),
            dsync(Type::CDS, 1, 53, "."),
            dsync(Type::CDS, 1, 5359, "a.example"),
            dsync(Type::CDS, 1, 53, "e.example"),
            vec![0, 59, 1, 0],
            [dsync(Type::CDS, 1, 53, "f.example"), vec![0]].concat(),
        ];
        let targets = targets_of(Type::CDS, &records);
        let host = |text: &str, port| NotifyHost { host: name(text), port };
        assert_eq!(targets, [host("a.example", 5359), host("e.example", 53)]);
        assert_eq!(targets_of(Type::CSYNC, &records), [host("b.example", 5359)]);
        let many: Vec<Vec<u8>> = (1..9).map(|port| dsync(Type::CDS, 1, port, "a.example")).collect();
        assert_eq!(targets_of(Type::CDS, &many).len(), MAX_TARGETS);
    }
}
