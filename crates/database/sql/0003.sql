-- Schema `nomen`, version 3: keys of the zones that the nodes sign.
--
-- The keys of a zone change together with its records, in one transaction: a
-- commit names the version of the keys that it was decided with, and another version is a conflict.
CREATE TABLE nomen.key_sets (
    zone bigint PRIMARY KEY REFERENCES nomen.zones ON DELETE CASCADE,
    version bigint NOT NULL CHECK (version > 0),
    stamp bigint NOT NULL,
    serial bigint NOT NULL CHECK (serial BETWEEN 0 AND 4294967295),
    dnskey_ttl bigint NOT NULL CHECK (dnskey_ttl BETWEEN 0 AND 4294967295),
    largest_ttl bigint NOT NULL CHECK (largest_ttl BETWEEN 0 AND 4294967295),
    changed timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE nomen.key_sets IS 'Zones that the nodes sign: the version of their keys';
COMMENT ON COLUMN nomen.key_sets.stamp IS 'A random number: versions of two histories are never taken for each other';
COMMENT ON COLUMN nomen.key_sets.serial IS 'The serial of the zone with which the keys were committed';
COMMENT ON COLUMN nomen.key_sets.largest_ttl IS 'The largest TTL of RRsets that caches may have, except DNSKEY';

CREATE TABLE nomen.keys (
    zone bigint NOT NULL REFERENCES nomen.key_sets ON DELETE CASCADE,
    name text COLLATE "C" NOT NULL CHECK (name LIKE 'K%'),
    public text NOT NULL,
    private text NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (zone, name)
);
COMMENT ON TABLE nomen.keys IS 'Private keys of zones: readable for the nodes only';
COMMENT ON COLUMN nomen.keys.name IS 'The name of its files, without .key, .private and .state';

-- The node that maintains keys and signatures. It holds the advisory lock with this number for as long as its session
-- lasts; the row is for operators.
CREATE TABLE nomen.signer (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    node text NOT NULL,
    session integer NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE nomen.signer IS 'The node that signs zones, or that was the last one';

-- Default privileges may give new tables to roles that only read: they are not to have the keys.
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
        FROM pg_class c, aclexplode(c.relacl) AS a
        WHERE c.oid = 'nomen.keys'::regclass AND a.grantee <> c.relowner
        GROUP BY a.grantee HAVING NOT bool_or(a.privilege_type = 'INSERT')
    LOOP
        EXECUTE format('REVOKE ALL ON nomen.keys FROM %s', reader);
    END LOOP;
END
$$;

CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.key_sets
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.keys
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();

-- A change of kind `keys` has no records and no key: its number makes nodes read the keys again.
ALTER TABLE nomen.changes DROP CONSTRAINT changes_kind_check;
ALTER TABLE nomen.changes ADD CONSTRAINT changes_kind_check
    CHECK (kind IN ('create', 'change', 'replace', 'remove', 'properties', 'section', 'keys'));

-- Refuses what a node signs whose clock, in seconds since 1970, differs by more than ten minutes from that of the database:
-- its signatures would not be valid yet, or no longer.
CREATE FUNCTION nomen.check_clock(at bigint) RETURNS void LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp AS $$
DECLARE
    ahead numeric := at - extract(epoch FROM clock_timestamp());
BEGIN
    IF abs(ahead) > 600 THEN
        RAISE EXCEPTION 'the clock of the node is % s % that of the database, so its signatures would not be valid',
            round(abs(ahead)), CASE WHEN ahead > 0 THEN 'ahead of' ELSE 'behind' END;
    END IF;
END
$$;

-- Locks a zone and compares the stamp of its keys; 0: it has none. `at`: see `check_clock`. Returns `ready`, `gone` or
-- `conflict`.
CREATE FUNCTION nomen.check_keys(of_zone bigint, before bigint, at bigint) RETURNS text LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    found_stamp bigint;
BEGIN
    PERFORM check_clock(at);
    PERFORM id FROM zones WHERE id = of_zone FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    SELECT stamp INTO found_stamp FROM key_sets WHERE zone = of_zone;
    RETURN CASE WHEN coalesce(found_stamp, 0) = before THEN 'ready' ELSE 'conflict' END;
END
$$;

-- Replaces the keys of a zone that is locked: {"version", "stamp", "serial", "dnskey_ttl",
-- "largest_ttl", "keys": [{"name", "public", "private", "state"}]}. Returns the number of the change of kind `keys`.
CREATE FUNCTION nomen.put_keys(of_zone bigint, put jsonb, by_author text, by_node text, with_tag bigint)
RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
BEGIN
    INSERT INTO key_sets (zone, version, stamp, serial, dnskey_ttl, largest_ttl)
        SELECT of_zone, s.version, s.stamp, s.serial, s.dnskey_ttl, s.largest_ttl
        FROM jsonb_to_record(put)
            AS s (version bigint, stamp bigint, serial bigint, dnskey_ttl bigint, largest_ttl bigint)
        ON CONFLICT (zone) DO UPDATE SET version = excluded.version, stamp = excluded.stamp,
            serial = excluded.serial, dnskey_ttl = excluded.dnskey_ttl, largest_ttl = excluded.largest_ttl,
            changed = clock_timestamp();
    DELETE FROM keys k WHERE k.zone = of_zone AND k.name NOT IN (
        SELECT w.name FROM jsonb_to_recordset(put -> 'keys') AS w (name text)
    );
    INSERT INTO keys (zone, name, public, private, state)
        SELECT of_zone, w.name, w.public, w.private, w.state
        FROM jsonb_to_recordset(put -> 'keys') AS w (name text, public text, private text, state text)
        ON CONFLICT (zone, name)
        DO UPDATE SET public = excluded.public, private = excluded.private, state = excluded.state;
    RETURN record_change(of_zone, 'keys', NULL, by_author, by_node, with_tag);
END
$$;

-- As `commit`, for zones that the nodes sign. Each zone of the payload may have "keys" beside what `commit` takes:
-- {"before", "after", "author", "at"}, with the stamp that its keys must have, and new keys as `put_keys` takes them, or
-- null. `at`: see `check_clock`.
-- A zone whose keys have another stamp is left out, as one that has another serial.
CREATE FUNCTION nomen.commit_signed(payload jsonb, by_node text, with_tag bigint)
RETURNS TABLE (of_zone bigint, outcome text, at_number bigint) LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    fits jsonb;
    done record;
    put jsonb;
BEGIN
    PERFORM check_clock((e.c -> 'keys' ->> 'at')::bigint)
        FROM jsonb_array_elements(payload) AS e (c) WHERE e.c -> 'keys' ->> 'at' IS NOT NULL;
    PERFORM z.id FROM zones z
        WHERE z.id = ANY (ARRAY(SELECT c.zone FROM jsonb_to_recordset(payload) AS c (zone bigint)))
        ORDER BY z.id FOR NO KEY UPDATE;
    SELECT coalesce(jsonb_agg(e.c ORDER BY e.at), '[]') INTO fits
        FROM jsonb_array_elements(payload) WITH ORDINALITY AS e (c, at)
        LEFT JOIN key_sets s ON s.zone = (e.c ->> 'zone')::bigint
        WHERE e.c -> 'keys' ->> 'before' IS NULL
            OR coalesce(s.stamp, 0) = (e.c -> 'keys' ->> 'before')::bigint;
    FOR done IN SELECT c.of_zone AS zone, c.outcome AS outcome, c.at_number AS number
        FROM nomen.commit(fits, by_node, with_tag) AS c
    LOOP
        of_zone := done.zone;
        outcome := done.outcome;
        at_number := done.number;
        IF done.outcome = 'committed' THEN
            SELECT e.c -> 'keys' INTO put FROM jsonb_array_elements(fits) AS e (c)
                WHERE (e.c ->> 'zone')::bigint = done.zone;
            IF jsonb_typeof(put -> 'after') = 'object' THEN
                at_number := put_keys(done.zone, put -> 'after', coalesce(put ->> 'author', ''), by_node, with_tag);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    RETURN QUERY
        SELECT c.zone, CASE WHEN z.id IS NULL THEN 'gone' ELSE 'conflict' END, z.change
        FROM jsonb_to_recordset(payload) AS c (zone bigint)
        LEFT JOIN zones z ON z.id = c.zone
        WHERE c.zone NOT IN (SELECT f.zone FROM jsonb_to_recordset(fits) AS f (zone bigint));
END
$$;
