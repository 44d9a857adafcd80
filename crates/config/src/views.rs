//! `[[view]]`: clients for which some zones have other versions.

use std::collections::HashMap;

use query_path::{ViewClients, ViewRule};
use toml::Spanned;
use toml::de::DeValue;
use transport::Transport;
use wire::{LowerNameBuf, NameBuf, Prefix, ViewName};

use super::interfaces::Interfaces;
use super::policy_zones::PolicyZoneBlock;
use super::report::{ConfigPlace, Diagnostic};
use super::resolver::access::{Clients, rule};
use super::resolver::networks::NetworkOr;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};
use super::zone_name::zone_name;
use super::zones::{ConfiguredZone, Templates};
use wording::did_you_mean;

/// The rules of all views, in the order of the configuration.
pub type ViewRules = Vec<ViewRule>;

keys! {
    /// Clients for which the zones with this `view` are served, in place of those of the same name without
    /// one. Zones without a view are served to all clients; zones of other views do not exist for them. A
    /// query that a key of a view has signed is in that view; else it is in the first view whose networks the
    /// client is in. [VIEWS.md](VIEWS.md) explains it.
    pub struct ViewBlock in "[[view]]" {
        /// Name of the view: at most 32 characters out of a-z, 0-9, "-" and "_". Files in the state folder
        /// have it in their paths.
        live "name" name: ViewName, example "inside";
        /// Networks that the client is in, words as in `[[resolver.access]]`, and keys as `key:NAME`.
        live "from" from: Vec<At<ViewFrom>>, example ["10.0.0.0/8", "key:inside-transfer"];
        /// Network interfaces whose addresses received the query. Unset: any.
        live "interface" interface: Option<Vec<At<String>>> = None, example ["eth1"];
        /// Transports of the query. Unset: any.
        live "proto" proto: Option<Vec<At<Transport>>> = None, example ["tcp"];
    }
}

/// A part of the clients of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewFrom {
    /// Clients by their address.
    Clients(NetworkOr<Clients>),
    /// Clients whose queries this key has signed.
    Key(Box<LowerNameBuf>),
}

impl Value for ViewFrom {
    fn kind() -> String {
        format!("{} or `key:NAME`", <NetworkOr<Clients>>::kind())
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref().as_str().and_then(|text| text.strip_prefix("key:")) {
            Some(name) => read_key(name, node, reader).map(|key| ViewFrom::Key(Box::new(key))),
            None => <NetworkOr<Clients>>::read(node, reader).map(ViewFrom::Clients),
        }
    }
    fn render(&self) -> Option<String> {
        match self {
            ViewFrom::Clients(clients) => clients.render(),
            ViewFrom::Key(key) => Some(quote(&format!("key:{}", key.as_name()))),
        }
    }
}

/// Reads the name of a TSIG key in `from`.
pub(super) fn read_key(
    name: &str,
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
) -> Option<LowerNameBuf> {
    let parse = |_: &str| zone_name(name).map_err(|fault| format!("the name of the key: {fault}"));
    reader.text(node, "a key", parse).map(|name| name.as_name().to_lower())
}

impl Value for ViewName {
    fn kind() -> String {
        "name of a view".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "the name of a view in quotes", |text| {
            text.parse::<ViewName>().map_err(|fault| format!("`{text}`: {fault}"))
        })
    }
    fn render(&self) -> Option<String> {
        Some(quote(self.as_str()))
    }
}

impl ViewBlock {
    /// The keys of the view, each with its place.
    pub fn keys(&self) -> impl Iterator<Item = (&LowerNameBuf, Option<&ConfigPlace>)> {
        self.from.iter().filter_map(|from| match &from.value {
            ViewFrom::Key(key) => Some((&**key, from.place.as_ref())),
            ViewFrom::Clients(_) => None,
        })
    }

    fn rule(&self, interfaces: &Interfaces) -> ViewRule {
        let clients = self.from.iter().filter_map(|from| match from.value {
            ViewFrom::Clients(clients) => Some(At { value: clients, place: from.place.clone() }),
            ViewFrom::Key(_) => None,
        });
        let clients: Vec<_> = clients.collect();
        ViewRule {
            name: self.name.value.clone(),
            clients: rule(&clients, self.interface.as_ref(), self.proto.as_ref(), interfaces),
            keys: self.keys().map(|(key, _)| *key).collect(),
        }
    }

    /// Whether the view has all queries of the clients `from`.
    fn has_all_of(&self, from: &ViewFrom) -> bool {
        let covers = |own: &ViewFrom| match (own, from) {
            (ViewFrom::Key(own), ViewFrom::Key(other)) => own == other,
            (ViewFrom::Clients(own), ViewFrom::Clients(other)) => is_part(other, own),
            _ => false,
        };
        self.interface.is_none() && self.proto.is_none() && self.from.iter().any(|own| covers(&own.value))
    }
}

/// Whether all clients of `part` are in `whole`, as far as the configuration alone shows it.
fn is_part(part: &NetworkOr<Clients>, whole: &NetworkOr<Clients>) -> bool {
    let is_loopback = |network: &Prefix| {
        network.to_canonical().address().is_loopback() && network.to_canonical().len() >= 8
    };
    match (part, whole) {
        (_, NetworkOr::Word(Clients::Any)) => true,
        (NetworkOr::Word(part), NetworkOr::Word(whole)) => part == whole,
        (NetworkOr::Network(part), NetworkOr::Word(Clients::Loopback)) => is_loopback(part),
        (NetworkOr::Network(part), NetworkOr::Network(whole)) => {
            whole.to_canonical().covers(&part.to_canonical())
        }
        _ => false,
    }
}

/// Returns the rules of the views on a machine with these interfaces.
pub(super) fn rules(views: &[At<ViewBlock>], interfaces: &Interfaces) -> ViewRules {
    views.iter().map(|view| view.rule(interfaces)).collect()
}

/// Reports views with the same name, views that no client is in, and more views than are possible.
pub(super) fn check(views: &[At<ViewBlock>], faults: &mut Vec<Diagnostic>) {
    if let Err(fault) = ViewClients::new(&rules(views, &Interfaces::default())) {
        let most = views.len().saturating_sub(fault.rules - query_path::access::MAX_RULES);
        let message = format!("{} views, and there can be {}", views.len(), query_path::access::MAX_RULES);
        faults.push(Diagnostic::at(views.get(most).and_then(|view| view.place.as_ref()), message));
    }
    let mut seen: HashMap<&ViewName, &At<ViewName>> = HashMap::new();
    for (at, view) in views.iter().enumerate() {
        let first = *seen.entry(&view.name.value).or_insert(&view.name);
        if !std::ptr::eq(first, &view.name) {
            let message = format!("view `{}` is defined twice", view.name.value);
            let fault = Diagnostic::at(view.name.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
            continue;
        }
        let earlier = views.get(..at).unwrap_or_default();
        let owner = |from: &At<ViewFrom>| earlier.iter().find(|other| other.has_all_of(&from.value));
        let mut owners = view.from.iter().map(owner);
        if let Some(Some(first)) = owners.next()
            && owners.all(|owner| owner.is_some())
        {
            let message = format!(
                "no client is in view `{}`: all that its `from` names are in views before it",
                view.name.value
            );
            let fault = Diagnostic::at(view.from.place.as_ref(), message);
            faults.push(fault.also(first.from.place.as_ref(), "here, for example"));
        }
    }
}

/// Reports zones of views that there are not, and zones that cannot be in a view.
pub(super) fn check_zones<'a>(
    views: &[At<ViewBlock>],
    zones: impl Iterator<Item = &'a At<ConfiguredZone>> + Clone,
    templates: &Templates,
    policy_zones: &[At<PolicyZoneBlock>],
    faults: &mut Vec<Diagnostic>,
) {
    let outside: std::collections::HashSet<&NameBuf> =
        zones.clone().filter(|zone| zone.view.is_none()).map(|zone| &zone.name.value).collect();
    for zone in zones {
        let Some(view) = &zone.view.value else { continue };
        if !views.iter().any(|known| known.name.value == *view) {
            let fault =
                Diagnostic::at(zone.view.place.as_ref(), format!("there is no [[view]] named `{view}`"));
            faults.push(match did_you_mean(view.as_str(), views.iter().map(|view| view.name.as_str())) {
                Some(near) => fault.hint(format!("did you mean \"{near}\"?")),
                None => fault,
            });
        }
        faults.extend(check_zone(zone, templates));
        let policy = policy_zones.iter().find(|policy| policy.name.value == zone.name.value);
        if let Some(policy) = policy.filter(|policy| !outside.contains(&policy.name.value)) {
            let message = format!(
                "the response policy zone {} is in view `{view}`: a response policy zone has no view",
                zone.name.value
            );
            let fault = Diagnostic::at(zone.view.place.as_ref(), message);
            faults.push(fault.also(policy.name.place.as_ref(), "it is used here"));
        }
    }
}

/// Reports keys of a zone in a view that only zones without a view can have.
pub(super) fn check_zone(zone: &ConfiguredZone, templates: &Templates) -> Option<Diagnostic> {
    let view = zone.view.value.as_ref()?;
    let template = zone.template.as_deref().and_then(|name| templates.get(name));
    let of_groups =
        zone.catalog.groups.value.iter().flat_map(|groups| &groups.0).map(|(_, name)| &name.value);
    let of_members = zone.catalog.template.value.iter().chain(of_groups);
    let of_members = of_members.filter_map(|name| Some(&templates.get(name)?.listing));
    let listing = [Some(&*zone.listing), template.map(|template| &template.listing)];
    let mut listing = listing.into_iter().flatten().chain(of_members);
    let (key, place) = match listing.find(|listing| listing.catalog.is_some()) {
        _ if zone.catalog.is_produced() => ("catalog-produce", zone.catalog.produce.place.as_ref()),
        Some(listing) => ("catalog-member", listing.catalog.place.as_ref()),
        None => return None,
    };
    let message = format!("zone {} is in view `{view}` and has `{key}`", zone.name.value);
    let fault = Diagnostic::at(zone.view.place.as_ref(), message);
    Some(fault.also(place, "a catalog zone that nomen makes has no view, nor have the zones that it lists"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{AcceptedConfig, read_text};

    const INSIDE: &str = "[[view]]\nname = \"inside\"\nfrom = [\"10.0.0.0/8\", \"key:K.example\"]\n";
    const ZONE: &str = "[[zone]]\nname = \"a.example\"\nfile = \"f\"\n";

    fn read(text: &str) -> Result<ViewRules, String> {
        let read = read_text("t.toml", text.to_owned(), Path::new("/"));
        read.map(|AcceptedConfig { config, .. }| config.settings.view_rules(&Interfaces::default()))
            .map_err(|fault| fault.to_string())
    }

    fn in_view(view: &str) -> String {
        format!("{ZONE}view = \"{view}\"\n")
    }

    #[test]
    fn a_view_has_networks_words_and_keys() {
        let rules = read(&format!("{INSIDE}proto = [\"tcp\"]\n{}{ZONE}", in_view("inside"))).expect("good");
        let [rule] = &rules[..] else { panic!("{rules:?}") };
        assert_eq!(
            (rule.name.as_str(), rule.keys[0].as_name().to_string().as_str()),
            ("inside", "k.example.")
        );
        assert_eq!(rule.clients.from, ["10.0.0.0/8".parse().expect("a network")]);
        assert_eq!(rule.clients.transports, Some(vec![Transport::Tcp]));
    }

    #[test]
    fn what_cannot_be_is_reported_with_its_place() {
        let view = |name: &str, from: &str| format!("[[view]]\nname = \"{name}\"\nfrom = [{from}]\n");
        let many: String = (0..65).map(|n| view(&format!("v{n}"), &format!("\"10.{n}.0.0/16\""))).collect();
        for (text, words, line) in [
            (in_view("insid") + INSIDE, "there is no [[view]] named `insid`", 4),
            (in_view("inside") + INSIDE + ZONE + "view = \"inside\"\n", "a.example. is defined twice", 9),
            (many, "65 views, and there can be 64", 193),
            (view("in side", "\"any\""), "`in side`", 2),
            (view("a", "\"ay\""), "did you mean \"any\"?", 3),
            (view("a", "\"any\"") + &view("a", "\"any\""), "view `a` is defined twice", 5),
            (view("a", "\"any\"") + &view("b", "\"10.0.0.0/8\""), "no client is in view `b`", 6),
            (
                view("a", "\"key:k\", \"10.0.0.0/8\"") + &view("b", "\"key:K\", \"10.1.0.0/16\""),
                "no client is in view `b`",
                6,
            ),
            (
                INSIDE.to_owned()
                    + &in_view("inside")
                    + "catalog-template = \"t\"\n[template.t]\nfile = \"{zone}\"\ncatalog-member = \"c\"\n\
                       [[zone]]\nname = \"c\"\ncatalog-produce = true\n[server]\nstate-dir = \"s\"\n",
                "has `catalog-member`",
                7,
            ),
            (
                INSIDE.to_owned()
                    + "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"c\"\nview = \"inside\"\ncatalog-produce = true\n",
                "has `catalog-produce`",
                8,
            ),
            (
                INSIDE.to_owned()
                    + &in_view("inside")
                    + "[resolver]\n[[policy.zone]]\nname = \"a.example\"\n",
                "a response policy zone has no view",
                7,
            ),
            (
                INSIDE.to_owned()
                    + "[resolver]\nlocal-root = true\n[[zone]]\nname = \".\"\nview = \"inside\"\nfile = \"f\"\n",
                "`local-root` has no effect",
                5,
            ),
        ] {
            let fault = read(&text).expect_err(words);
            assert!(
                fault.contains(words) && fault.contains(&format!("t.toml:{line}:")),
                "{words} {line}: {fault}"
            );
        }
        for good in [
            INSIDE.to_owned()
                + &in_view("inside")
                + "catalog-template = \"t\"\n[template.t]\nfile = \"{zone}\"\n",
            view("a", "\"any\"") + &view("b", "\"10.0.0.0/8\", \"key:k\""),
            view("a", "\"any\"") + "proto = [\"tcp\"]\n" + &view("b", "\"10.0.0.0/8\""),
            view("a", "\"10.0.0.0/8\"") + &view("b", "\"10.0.0.0/7\""),
            INSIDE.to_owned()
                + &in_view("inside")
                + ZONE
                + "[resolver]\n[[policy.zone]]\nname = \"a.example\"\n",
        ] {
            assert_eq!(read(&good).map(drop), Ok(()), "{good}");
        }
    }
}
