//! Zones: master files, snapshots, the catalog of zones served; knows no queries.
