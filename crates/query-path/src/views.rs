//! Views: which clients have zones of their own, and the catalog of each view.
//!
//! A view has its own versions of some zones, and otherwise the zones outside views: its catalog has the
//! latter, with its own zones in place of those of the same name (`zone::Catalog::over`). So a query is
//! answered from one catalog, whatever it needs of other zones: the longest match, referrals, chains, DS.
//! Zones of other views do not exist for it.

use std::sync::Arc;

use transport::Client;
use wire::{LowerName, LowerNameBuf, ViewName, ZoneName};
use zone::catalog::{Catalog, ZoneEntry};

use crate::access::{Access, AccessAction, AccessRule, KeyMasks, TooManyRules};

/// The clients of one view. All of its conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRule {
    /// The name of the view.
    pub name: ViewName,
    /// Conditions on the client's address, on the local address and on the transport. Its action has no
    /// meaning.
    pub clients: AccessRule,
    /// Keys: a query that one of them has signed fulfills the condition on the client's address.
    pub keys: Vec<LowerNameBuf>,
}

/// The view of a query: its number in [`ViewClients`], from 1, or 0 for no view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewNumber(u8);

impl ViewNumber {
    /// The query is in no view.
    pub const OUTSIDE: ViewNumber = ViewNumber(0);

    /// Returns the view's number as it is stored with a location.
    #[inline]
    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    /// Returns the view of such a number.
    #[inline]
    pub(crate) fn of_byte(byte: u8) -> ViewNumber {
        ViewNumber(byte)
    }
}

/// Which client is in which view.
#[derive(Clone, Debug)]
pub struct ViewClients {
    names: Box<[ViewName]>,
    access: Access,
    keys: KeyMasks,
}

impl ViewClients {
    /// Compiles the rules of views.
    ///
    /// # Errors
    /// There are more than 64.
    pub fn new(rules: &[ViewRule]) -> Result<ViewClients, TooManyRules> {
        let clients: Vec<AccessRule> = rules
            .iter()
            .map(|rule| AccessRule { action: AccessAction::Allow, ..rule.clients.clone() })
            .collect();
        let access = Access::new(&clients)?;
        let keys = KeyMasks::new(rules.iter().map(|rule| &*rule.keys));
        Ok(ViewClients { names: rules.iter().map(|rule| rule.name.clone()).collect(), access, keys })
    }

    /// Returns the view of a client's query that `key` has signed, if a valid TSIG has: the first view that
    /// names the key, or else the first one that names the client's address, of those whose other conditions
    /// hold.
    pub fn of(&self, client: &Client, key: Option<LowerName<'_>>) -> ViewNumber {
        let by_key = key.map_or(0, |key| self.keys.mask(key) & self.access.fitting_elsewhere(client));
        let fits = if by_key != 0 { by_key } else { self.access.fitting(client) };
        ViewNumber(if fits == 0 { 0 } else { fits.trailing_zeros() as u8 + 1 })
    }

    /// The names of the views, in their order.
    pub fn names(&self) -> &[ViewName] {
        &self.names
    }

    /// Returns the name of a view.
    pub fn name(&self, view: ViewNumber) -> Option<&ViewName> {
        self.names.get(usize::from(view.0).checked_sub(1)?)
    }
}

/// The views in service.
pub struct Views {
    clients: Arc<ViewClients>,
    /// The catalog of each view, in their order.
    catalogs: Box<[Arc<Catalog>]>,
}

impl Views {
    /// Returns views with the catalogs that `catalog` returns for their names.
    pub fn new(clients: &Arc<ViewClients>, catalog: impl FnMut(&ViewName) -> Arc<Catalog>) -> Views {
        let catalogs = clients.names().iter().map(catalog).collect();
        Views { clients: Arc::clone(clients), catalogs }
    }

    /// Which client is in which view.
    pub fn clients(&self) -> &Arc<ViewClients> {
        &self.clients
    }

    /// Returns the catalog of a view; `None` for no view.
    #[inline]
    pub fn catalog(&self, view: ViewNumber) -> Option<&Catalog> {
        self.catalogs.get(usize::from(view.0).checked_sub(1)?).map(|catalog| &**catalog)
    }

    /// Returns the name and the catalog of a view; `None` for no view.
    pub fn get(&self, view: ViewNumber) -> Option<(&ViewName, &Arc<Catalog>)> {
        let catalog = self.catalogs.get(usize::from(view.0).checked_sub(1)?)?;
        Some((self.clients.name(view)?, catalog))
    }

    /// Returns the views with their catalogs, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&ViewName, &Arc<Catalog>)> {
        self.clients.names.iter().zip(&self.catalogs)
    }

    /// Returns a zone of a view.
    pub fn entry(&self, apex: &ZoneName) -> Option<&ZoneEntry> {
        let (_, catalog) = self.iter().find(|(view, _)| Some(view.as_str()) == apex.view())?;
        catalog.get(apex.as_name()).filter(|entry| entry.is_in_view())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use transport::Transport;
    use wire::NameBuf;

    use super::*;

    fn rule(name: &str, from: &[&str], keys: &[&str]) -> ViewRule {
        let from = from.iter().map(|text| text.parse().expect("a network")).collect();
        let key = |text: &&str| text.parse::<NameBuf>().expect("a name").as_name().to_lower();
        ViewRule {
            name: name.parse().expect("the name of a view"),
            clients: AccessRule { action: AccessAction::Refuse, from, local: None, transports: None },
            keys: keys.iter().map(key).collect(),
        }
    }

    fn of(clients: &ViewClients, peer: &str, transport: Transport, key: Option<&str>) -> String {
        let at = |text: &str| SocketAddr::new(text.parse().expect("an address"), 53);
        let client = Client { peer: at(peer), local: at("192.0.2.1"), transport };
        let key = key.map(|text| text.parse::<NameBuf>().expect("a name").as_name().to_lower());
        let view = clients.of(&client, key.as_ref().map(|key| key.as_lower()));
        clients.name(view).map_or("none".into(), ToString::to_string)
    }

    #[test]
    fn the_key_of_a_query_decides_before_its_address() {
        let rules = [
            rule("inside", &["10.0.0.0/8", "2001:db8::/32"], &["In."]),
            rule("lab", &["10.1.0.0/16"], &["lab."]),
        ];
        let clients = ViewClients::new(&rules).expect("few views");
        let of = |peer, key| of(&clients, peer, Transport::Udp, key);
        assert_eq!(of("10.1.0.1", None), "inside", "the first view that fits");
        assert_eq!(of("::ffff:10.1.0.1", None), "inside");
        assert_eq!(of("2001:db8::1", None), "inside");
        assert_eq!(of("192.0.2.9", None), "none");
        assert_eq!(of("10.1.0.1", Some("lab.")), "lab");
        assert_eq!(of("192.0.2.9", Some("lab.")), "lab");
        assert_eq!(of("192.0.2.9", Some("in.")), "inside");
        assert_eq!(of("10.1.0.1", Some("other.")), "inside", "a key that no view names has no effect");
    }

    #[test]
    fn other_conditions_hold_for_keys_as_well() {
        let mut tcp = rule("tcp", &["10.0.0.0/8"], &["k."]);
        tcp.clients.transports = Some(vec![Transport::Tcp]);
        let mut here = rule("here", &[], &["k."]);
        here.clients.local = Some(vec!["192.0.2.1".parse::<std::net::IpAddr>().expect("an address").into()]);
        let mut there = rule("there", &[], &["k."]);
        there.clients.local = Some(vec!["192.0.2.2".parse::<std::net::IpAddr>().expect("an address").into()]);
        let clients = ViewClients::new(&[there, tcp, here]).expect("few views");
        assert_eq!(of(&clients, "192.0.2.9", Transport::Tcp, Some("k.")), "tcp");
        assert_eq!(of(&clients, "192.0.2.9", Transport::Udp, Some("k.")), "here");
        assert_eq!(of(&clients, "10.0.0.1", Transport::Udp, None), "none");
    }

    #[test]
    fn there_are_as_many_views_as_a_mask_has_bits() {
        let mut rules: Vec<ViewRule> =
            (0..64).map(|n| rule(&format!("v{n}"), &[&*format!("10.{n}.0.0/16")], &[])).collect();
        let clients = ViewClients::new(&rules).expect("as many as there can be");
        assert_eq!(of(&clients, "10.63.0.1", Transport::Udp, None), "v63");
        rules.push(rule("more", &[], &[]));
        assert!(ViewClients::new(&rules).is_err());
    }
}
