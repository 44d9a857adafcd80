//! Tests of PowerDNS's tables with a real PostgreSQL: a node that follows them, and the same answers as those
//! of a real PowerDNS.

mod following;
mod hostile;
mod same;
mod sink;

/// The tables of the gpgsql backend as far as they are read, with the types of columns of its versions 4.3
/// and 5.1.
pub(crate) const TABLES: &str = "
CREATE TABLE domains (id SERIAL PRIMARY KEY, name VARCHAR(255) NOT NULL, master VARCHAR(128), last_check INT,
    type TEXT NOT NULL, notified_serial BIGINT, account VARCHAR(40), options TEXT, catalog TEXT);
CREATE UNIQUE INDEX name_index ON domains (name);
CREATE TABLE records (id BIGSERIAL PRIMARY KEY, domain_id INT REFERENCES domains ON DELETE CASCADE,
    name VARCHAR(255), type VARCHAR(10), content VARCHAR(65535), ttl INT, prio INT, disabled BOOL DEFAULT 'f',
    ordername VARCHAR(255), auth BOOL DEFAULT 't');
CREATE TABLE domainmetadata (id SERIAL PRIMARY KEY, domain_id INT REFERENCES domains ON DELETE CASCADE,
    kind VARCHAR(32), content TEXT);
CREATE TABLE cryptokeys (id SERIAL PRIMARY KEY, domain_id INT REFERENCES domains ON DELETE CASCADE,
    flags INT NOT NULL, active BOOL, published BOOL DEFAULT TRUE, content TEXT);";
