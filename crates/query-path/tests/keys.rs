//! Hash keys: an engine serves catalogs of its own key only.

use std::sync::Arc;

use query_path::{Engine, EngineConfig, Sources, WrongCatalogKey, Zones};
use wire::NameBuf;
use wire::hash::HashKey;
use zone::{Catalog, Change};

#[test]
fn a_catalog_of_another_key_is_refused_and_the_present_one_stays() {
    let [ours, other] = [[1, 2, 3], [1, 2, 4]].map(HashKey::new);
    let engine =
        Engine::new(Zones::new(Arc::new(Catalog::new(&ours))), Sources::default(), EngineConfig::default());
    let apex: NameBuf = "example.".parse().expect("a name");
    let of = |key| {
        Arc::new(Catalog::new(key).with([Change::Unload(Box::new(apex))]).expect("no zone, no other key"))
    };
    let (fitting, foreign) = (of(&ours), of(&other));
    assert_eq!(engine.set_catalog(&fitting), Ok(()));
    assert_eq!(engine.set_catalog(&foreign), Err(WrongCatalogKey));
    assert!(Arc::ptr_eq(&engine.catalog(), &fitting));
}
