//! What the token of a request may do.

use std::net::IpAddr;
use std::sync::Arc;

use config::api::{ApiGrant, ApiRight};
use wire::{Name, Type, ZoneName};
use zone_manager::changes::{ChangeAuthor, ChangeOrigin};

use crate::reply::ApiFault;

/// The token of a request, and the client's address.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token's name.
    pub token: Arc<str>,
    /// The client's address.
    pub address: IpAddr,
    /// The token's rights.
    pub(crate) grants: Arc<[ApiGrant]>,
}

pub(crate) use self::RightScope as Scope;

/// What a request needs the right for.
#[derive(Debug, Clone, Copy)]
pub enum RightScope<'a> {
    /// The whole server: a right that is limited to zones does not suffice.
    Server,
    /// Some zone, whichever: for lists, of which each entry is then checked.
    SomeZone,
    /// This zone and its metadata, and some of its records.
    Zone(&'a ZoneName),
    /// All records of this zone.
    AllRecords(&'a ZoneName),
    /// The records of this zone with this owner and type.
    Records(&'a ZoneName, Name<'a>, Type),
}

impl Caller {
    /// Returns a caller.
    pub fn new(token: Arc<str>, address: IpAddr, grants: Arc<[ApiGrant]>) -> Caller {
        Caller { token, address, grants }
    }

    /// Returns the origin of changes that the caller makes.
    pub(crate) fn origin(&self) -> ChangeOrigin {
        ChangeOrigin::Edit(ChangeAuthor::Program { token: Arc::clone(&self.token), address: self.address })
    }

    /// Returns whether the token has a right. Rights "change" and "manage" include reading what they cover,
    /// "policy" and "server" include reading all that belongs to no zone.
    pub fn may(&self, right: ApiRight, scope: Scope<'_>) -> bool {
        self.grants.iter().any(|grant| includes(*grant.right, right, scope) && covers(grant, scope))
    }

    /// Returns an error if the token lacks a right.
    ///
    /// # Errors
    /// Status 403.
    pub fn must(&self, right: ApiRight, scope: Scope<'_>) -> Result<(), ApiFault> {
        if self.may(right, scope) {
            return Ok(());
        }
        let word = match right {
            ApiRight::Read => "read",
            ApiRight::Change => "change",
            ApiRight::Manage => "manage",
            ApiRight::Policy => "policy",
            ApiRight::Server => "server",
            ApiRight::All => "all",
        };
        let of = match scope {
            Scope::Server => " for the whole server".to_owned(),
            Scope::SomeZone => " for any zone".to_owned(),
            Scope::Zone(zone) => format!(" for zone {zone}"),
            Scope::AllRecords(zone) => format!(" for all records of zone {zone}"),
            Scope::Records(zone, owner, rtype) => format!(" for {owner} {rtype} in zone {zone}"),
        };
        Err(ApiFault::forbidden(format!("token `{}` does not have the right \"{word}\"{of}", self.token)))
    }
}

/// Returns whether a granted right includes the wanted one.
fn includes(granted: ApiRight, wanted: ApiRight, scope: Scope<'_>) -> bool {
    use ApiRight::{All, Change, Manage, Policy, Read, Server};
    match (granted, wanted) {
        (All, _) => true,
        (granted, wanted) if granted == wanted => true,
        (Change | Manage, Read) => !matches!(scope, Scope::Server),
        (Policy | Server, Read) => matches!(scope, Scope::Server),
        _ => false,
    }
}

/// Returns whether a grant covers what a request is about.
fn covers(grant: &ApiGrant, scope: Scope<'_>) -> bool {
    match scope {
        Scope::Server => grant.zones.is_none() && grant.covers_all_records(),
        Scope::SomeZone => true,
        Scope::Zone(zone) => grant.covers_zone(zone),
        Scope::AllRecords(zone) => grant.covers_all_records() && grant.covers_zone(zone),
        Scope::Records(zone, owner, rtype) => grant.covers_zone(zone) && grant.covers_records(owner, rtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::table::read::At;

    fn grant(right: ApiRight, zones: &[&str], names: &[&str], types: &[Type]) -> ApiGrant {
        let list = |texts: &[&str]| {
            (!texts.is_empty()).then(|| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        let zones = list(zones)
            .map(|all| all.iter().map(|text| At::unwritten(text.parse().expect("zones"))).collect());
        let names = list(names)
            .map(|all| all.iter().map(|text| At::unwritten(text.parse().expect("names"))).collect());
        let types = (!types.is_empty()).then(|| types.iter().map(|rtype| At::unwritten(*rtype)).collect());
        ApiGrant {
            right: At::unwritten(right),
            zones: At::unwritten(zones),
            names: At::unwritten(names),
            types: At::unwritten(types),
        }
    }

    fn caller(grants: Vec<ApiGrant>) -> Caller {
        Caller::new("t".into(), "192.0.2.1".parse().expect("an address"), grants.into())
    }

    #[test]
    fn a_right_reaches_what_it_covers_and_no_further() {
        use ApiRight::{All, Change, Manage, Policy, Read, Server};
        let zone = |text: &str| {
            let name: wire::NameBuf = text.parse().expect("a name");
            ZoneName::in_view(name.as_name().to_lower().as_lower(), None)
        };
        let (zone, other) = (zone("example."), zone("other."));
        let owner: wire::NameBuf = "_acme-challenge.example.".parse().expect("a name");
        let txt = Scope::Records(&zone, owner.as_name(), Type::TXT);
        let a = Scope::Records(&zone, owner.as_name(), Type::A);
        let may = |grant: ApiGrant, right, scope| caller(vec![grant]).may(right, scope);
        let acme = || grant(Change, &["example"], &["_acme-challenge.*"], &[Type::TXT]);
        for (granted, right, scope, expected) in [
            (acme(), Change, txt, true),
            (acme(), Change, a, false),
            (acme(), Read, txt, true),
            (acme(), Read, a, false),
            (acme(), Read, Scope::Zone(&zone), true),
            (acme(), Read, Scope::AllRecords(&zone), false),
            (acme(), Change, Scope::AllRecords(&zone), false),
            (acme(), Read, Scope::Zone(&other), false),
            (acme(), Read, Scope::SomeZone, true),
            (acme(), Read, Scope::Server, false),
            (acme(), Manage, Scope::Zone(&zone), false),
            (grant(Read, &[], &[], &[]), Read, Scope::Server, true),
            (grant(Read, &[], &[], &[]), Change, txt, false),
            (grant(Read, &["example"], &[], &[]), Read, Scope::Server, false),
            (grant(Read, &[], &["example"], &[]), Read, Scope::Server, false),
            (grant(Change, &[], &[], &[]), Read, Scope::Server, false),
            (grant(Manage, &["example"], &[], &[]), Read, Scope::AllRecords(&zone), true),
            (grant(Manage, &["example"], &[], &[]), Change, txt, false),
            (grant(Manage, &["example"], &[], &[]), Manage, Scope::Zone(&other), false),
            (grant(Policy, &[], &[], &[]), Read, Scope::Server, true),
            (grant(Policy, &[], &[], &[]), Server, Scope::Server, false),
            (grant(Server, &[], &[], &[]), Server, Scope::Server, true),
            (grant(Server, &[], &[], &[]), Read, Scope::Zone(&zone), false),
            (grant(All, &[], &[], &[]), Server, Scope::Server, true),
            (grant(All, &["example"], &[], &[]), Change, txt, true),
            (grant(All, &["example"], &[], &[]), Server, Scope::Server, false),
        ] {
            assert_eq!(may(granted.clone(), right, scope), expected, "{granted:?} {right:?} {scope:?}");
        }
        assert!(!caller(Vec::new()).may(Read, Scope::SomeZone));
        let refused = caller(vec![acme()]).must(Change, a).expect_err("refused");
        assert!(
            refused.message.contains("\"change\" for _acme-challenge.example. A in zone example."),
            "{refused:?}"
        );
    }
}
