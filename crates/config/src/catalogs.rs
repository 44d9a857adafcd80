//! Keys about catalog zones (RFC 9432), whose records list other zones: keys of `[[zone]]` for a catalog zone
//! itself, and keys of `[[zone]]` and `[template.X]` for the catalog zone that lists a zone.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;
use wire::NameBuf;

use super::report::{ConfigPlace, Diagnostic};
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Share, Value, quote};

/// Default of the largest share of a catalog zone's members that one version removes.
const MAX_REMOVED: f64 = 0.2;

keys! {
    /// Keys of a catalog zone about the zones it lists.
    pub struct CatalogKeys {
        /// Makes this zone a catalog zone (RFC 9432), whose members are served with this template. A member
        /// has the `file` or the `primaries` of the template; if the template has neither, the primaries of
        /// the catalog zone. Members are in the view of the catalog zone, if it is in one.
        live "catalog-template" template: Option<String> = None, example "customers";
        /// Templates of members by their group in the catalog zone; other members have `catalog-template`.
        live "catalog-groups" groups: Option<GroupTemplates> = None, example { gold = "customers" };
        /// Largest share of a catalog zone's members that one version of it removes, or resets by other
        /// labels (RFC 9432 §5.4). If it would be more, and at least ten, all of them stay unchanged until
        /// they are listed again or `nomen ctl reload --force` is given. With `catalog-produce` they stay in
        /// the list. Unset: 0.2.
        live "catalog-max-removed" max_removed: Option<Share> = None, example 0.5;
        /// Answer queries for the catalog zone itself, and transfers of it. Unset: no; they are refused, as
        /// for a zone that is not served.
        live "catalog-answers" answers: Option<bool> = None, example true;
        /// Generate this zone: a catalog zone that lists every zone whose `catalog-member` is its name. It is
        /// stored in the state folder, and has no `file`, no `primaries` and no `template`.
        live "catalog-produce" produce: Option<bool> = None, example true;
    }
}

keys! {
    /// Keys of zones and templates about the catalog zone that lists the zone. The zone's keys take
    /// precedence.
    pub struct ListingKeys {
        /// Catalog zone with `catalog-produce` that lists this zone, for secondaries.
        live "catalog-member" catalog: Option<NameBuf> = None, example "catalog.example.com";
        /// The zone's group in that catalog zone (RFC 9432 §4.3.2), by which secondaries choose its settings.
        live "catalog-group" group: Option<String> = None, example "gold";
        /// Catalog zone that the zone is to move to (`coo`, RFC 9432 §4.3.1). If nomen produces that one,
        /// too, it lists the zone under the same label, so that consumers of both keep the zone's data. After
        /// all consumers have that version, set this name as `catalog-member`.
        live "catalog-coo" new_owner: Option<NameBuf> = None, example "other.example.com";
    }
}

impl ListingKeys {
    /// Reports a catalog zone that is not produced here, according to `is_produced`.
    pub(super) fn check(&self, is_produced: impl Fn(&NameBuf) -> bool, faults: &mut Vec<Diagnostic>) {
        if let Some(name) = self.catalog.value.as_ref().filter(|name| !is_produced(name)) {
            let message = format!("there is no zone {name} with `catalog-produce`");
            faults.push(Diagnostic::at(self.catalog.place.as_ref(), message));
        }
    }

    /// Reports keys that have no effect because no catalog zone lists the zone.
    pub(super) fn check_unlisted(&self, faults: &mut Vec<Diagnostic>) {
        let of_group = self.group.value.as_ref().map(|_| ("catalog-group", &self.group.place));
        let of_coo = self.new_owner.value.as_ref().map(|_| ("catalog-coo", &self.new_owner.place));
        for (key, place) in of_group.into_iter().chain(of_coo) {
            let message = format!("`{key}` has no effect without `catalog-member`");
            faults.push(Diagnostic::at(place.as_ref(), message));
        }
    }
}

/// Templates by group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupTemplates(pub BTreeMap<String, At<String>>);

impl Value for GroupTemplates {
    fn kind() -> String {
        "table of groups and their templates".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(table) = node.get_ref().as_table() else {
            reader.wrong_type(node, "a table such as { gold = \"gold-members\" }");
            return None;
        };
        let mut all = BTreeMap::new();
        for (group, node) in table.iter() {
            let place = Some(reader.place(node.span()));
            let value = String::read(node, reader)?;
            all.insert(group.get_ref().to_string(), At { value, place });
        }
        Some(Self(all))
    }
    fn render(&self) -> Option<String> {
        let all: Vec<String> = self
            .0
            .iter()
            .map(|(group, template)| format!("{} = {}", quote(group), quote(template)))
            .collect();
        Some(format!("{{ {} }}", all.join(", ")))
    }
}

impl CatalogKeys {
    /// Returns whether the zone is produced here.
    pub fn is_produced(&self) -> bool {
        self.produce.value == Some(true)
    }

    /// Returns the largest share of members that one version may remove.
    pub fn max_removed(&self) -> f64 {
        self.max_removed.value.as_ref().map_or(MAX_REMOVED, |share| share.0)
    }

    /// Returns every template that the keys name.
    pub fn templates(&self) -> impl Iterator<Item = (&String, Option<&ConfigPlace>)> {
        let groups = self.groups.value.iter().flat_map(|groups| groups.0.values());
        let default = self.template.value.as_ref().map(|name| (name, self.template.place.as_ref()));
        default.into_iter().chain(groups.map(|at| (&at.value, at.place.as_ref())))
    }
}
