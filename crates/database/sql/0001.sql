-- Schema `nomen`, version 1: zones, their RRsets, what changed, and the nodes that serve them.
--
-- Tables are changed by the functions below alone; a trigger refuses anything else. All names are absolute, with a
-- final dot, in presentation form. Text sorts and folds by bytes (collation "C"), whatever the locale of the database.

CREATE SCHEMA IF NOT EXISTS nomen;

CREATE TABLE nomen.about (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version integer NOT NULL,
    cluster uuid NOT NULL DEFAULT gen_random_uuid(),
    last_change bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE nomen.about IS 'One row: the version of this schema, and the number of the last change';

CREATE TABLE nomen.zones (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    view text COLLATE "C" NOT NULL DEFAULT '',
    name text COLLATE "C" NOT NULL CHECK (name = lower(name) AND name LIKE '%.'),
    template text,
    serial bigint NOT NULL CHECK (serial BETWEEN 0 AND 4294967295),
    change bigint NOT NULL DEFAULT 0,
    created timestamptz NOT NULL DEFAULT now(),
    UNIQUE (view, name)
);
COMMENT ON COLUMN nomen.zones.template IS 'The template of the configuration that its settings are from; null: the default one';
COMMENT ON COLUMN nomen.zones.change IS 'The number of its last change';

CREATE TABLE nomen.rrsets (
    zone bigint NOT NULL REFERENCES nomen.zones ON DELETE CASCADE,
    name text COLLATE "C" NOT NULL CHECK (name LIKE '%.'),
    type text COLLATE "C" NOT NULL,
    covers text COLLATE "C" NOT NULL DEFAULT '',
    ttl bigint NOT NULL CHECK (ttl BETWEEN 0 AND 4294967295),
    data text[] NOT NULL CHECK (cardinality(data) > 0)
);
CREATE UNIQUE INDEX rrsets_key ON nomen.rrsets (zone, lower(name), type, covers);
COMMENT ON COLUMN nomen.rrsets.covers IS 'The type that RRSIG records cover';

CREATE TABLE nomen.changes (
    number bigint PRIMARY KEY,
    zone bigint NOT NULL,
    view text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('create', 'change', 'replace', 'remove', 'properties')),
    serial_before bigint,
    serial_after bigint,
    removed text[],
    added text[],
    author text NOT NULL,
    node text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tag bigint NOT NULL
);
CREATE INDEX changes_zone ON nomen.changes (zone, number);
CREATE INDEX changes_tag ON nomen.changes (tag);
COMMENT ON TABLE nomen.changes IS 'What changed, in the order of commits, without gaps in the numbers';
COMMENT ON COLUMN nomen.changes.removed IS 'Records: owner, TTL, type, data. Null: the zone changed as a whole';
COMMENT ON COLUMN nomen.changes.tag IS 'Made by the node, which finds out with it whether a commit was made';

CREATE TABLE nomen.nodes (
    name text PRIMARY KEY,
    seen timestamptz NOT NULL,
    change bigint NOT NULL,
    zones bigint NOT NULL,
    version text NOT NULL,
    address inet
);
COMMENT ON COLUMN nomen.nodes.change IS 'The number of the last change that the node has';

-- Functions that write have `nomen_writes`, a schema that does not exist, in their search path: it is the mark by which
-- the trigger knows them. A parameter of our own in its place would need a superuser to create these functions.
CREATE FUNCTION nomen.guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('search_path') NOT LIKE '%, nomen_writes' THEN
        RAISE EXCEPTION 'nomen.% is changed by the functions of its schema only', TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege',
                HINT = 'Change zones with a node: nsupdate, nomen ctl zone edit, the HTTP API, or nomen database import.';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.about
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.zones
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.rrsets
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.changes
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();

-- Takes numbers for changes and returns the one before the first. The row stays locked until the transaction ends, so
-- numbers are in the order of commits, and a reader that sees a number sees all changes before it. Called last.
CREATE FUNCTION nomen.take_numbers(how_many bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    before_first bigint;
BEGIN
    UPDATE about SET last_change = last_change + how_many WHERE singleton
        RETURNING last_change - how_many INTO STRICT before_first;
    PERFORM pg_notify('nomen', (before_first + how_many)::text);
    RETURN before_first;
END
$$;

-- Records one change of a zone that is locked, or new, and returns its number.
CREATE FUNCTION nomen.record_change(
    of_zone bigint, of_kind text, before bigint, by_author text, by_node text, with_tag bigint
) RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    taken bigint := take_numbers(1) + 1;
BEGIN
    UPDATE zones SET change = taken WHERE id = of_zone;
    INSERT INTO changes (number, zone, view, name, kind, serial_before, serial_after, author, node, tag)
        SELECT taken, id, view, name, of_kind, before, serial, by_author, by_node, with_tag FROM zones WHERE id = of_zone;
    RETURN taken;
END
$$;

-- Adds RRsets that a zone does not have: [{"name", "type", "covers", "ttl", "data"}].
CREATE FUNCTION nomen.put_rrsets(of_zone bigint, put jsonb) RETURNS void LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
BEGIN
    INSERT INTO rrsets (zone, name, type, covers, ttl, data)
        SELECT of_zone, w.name, w.type, w.covers, w.ttl, w.data
        FROM jsonb_to_recordset(put) AS w (name text, type text, covers text, ttl bigint, data text[]);
END
$$;

-- Makes a zone without records and returns its id, or null if there is one of this name. RRsets and the change of kind
-- `create` follow in the same transaction.
CREATE FUNCTION nomen.begin_zone(in_view text, named text, by_template text, with_serial bigint)
RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    made bigint;
BEGIN
    INSERT INTO zones (view, name, template, serial) VALUES (in_view, named, by_template, with_serial)
        ON CONFLICT DO NOTHING RETURNING id INTO made;
    RETURN made;
END
$$;

-- Creates a zone and returns its id and the number of the change; nothing if there is one of this name.
CREATE FUNCTION nomen.create_zone(
    in_view text, named text, by_template text, with_serial bigint, put jsonb,
    by_author text, by_node text, with_tag bigint
) RETURNS TABLE (made bigint, at_number bigint) LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp AS $$
BEGIN
    made := begin_zone(in_view, named, by_template, with_serial);
    IF made IS NOT NULL THEN
        PERFORM put_rrsets(made, put);
        at_number := record_change(made, 'create', NULL, by_author, by_node, with_tag);
        RETURN NEXT;
    END IF;
END
$$;

-- Locks a zone, removes all its records and sets its serial; returns `ready`, `gone`, or `conflict` if its serial is
-- another one than `before` (null: any). RRsets and the change of kind `replace` follow in the same transaction.
CREATE FUNCTION nomen.begin_replace(of_zone bigint, before bigint, after bigint) RETURNS text LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    found_serial bigint;
BEGIN
    SELECT serial INTO found_serial FROM zones WHERE id = of_zone FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    IF found_serial IS DISTINCT FROM coalesce(before, found_serial) THEN
        RETURN 'conflict';
    END IF;
    DELETE FROM rrsets WHERE zone = of_zone;
    UPDATE zones SET serial = after WHERE id = of_zone;
    RETURN 'ready';
END
$$;

-- Replaces all records of a zone; returns as `begin_replace` does, or `committed` and the number of the change.
CREATE FUNCTION nomen.replace_zone(
    of_zone bigint, before bigint, after bigint, put jsonb, by_author text, by_node text, with_tag bigint
) RETURNS TABLE (outcome text, at_number bigint) LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp AS $$
BEGIN
    outcome := begin_replace(of_zone, before, after);
    IF outcome = 'ready' THEN
        PERFORM put_rrsets(of_zone, put);
        at_number := record_change(of_zone, 'replace', before, by_author, by_node, with_tag);
        outcome := 'committed';
    END IF;
    RETURN NEXT;
END
$$;

-- Removes a zone and returns the number of the change, or null if there is none.
CREATE FUNCTION nomen.remove_zone(of_zone bigint, by_author text, by_node text, with_tag bigint)
RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    was zones;
    taken bigint;
BEGIN
    DELETE FROM zones WHERE id = of_zone RETURNING * INTO was;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    taken := take_numbers(1) + 1;
    INSERT INTO changes (number, zone, view, name, kind, serial_before, author, node, tag)
        VALUES (taken, was.id, was.view, was.name, 'remove', was.serial, by_author, by_node, with_tag);
    RETURN taken;
END
$$;

-- Sets the template of a zone and returns the number of the change, or null if there is no such zone.
CREATE FUNCTION nomen.set_template(of_zone bigint, to_template text, by_author text, by_node text, with_tag bigint)
RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
BEGIN
    UPDATE zones SET template = to_template WHERE id = of_zone;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN record_change(of_zone, 'properties', NULL, by_author, by_node, with_tag);
END
$$;

-- Creates many zones: [{"view", "name", "template", "serial", "author", "rrsets"}], with RRsets as `put_rrsets` has them.
-- Returns the position of each, from 1 on, with its id. Those whose name is there already are left out.
CREATE FUNCTION nomen.create_zones(put jsonb, by_node text, with_tag bigint)
RETURNS TABLE (at_position bigint, made bigint) LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    how_many bigint;
    before_first bigint;
BEGIN
    INSERT INTO zones (view, name, template, serial)
        SELECT c.view, c.name, c.template, c.serial
        FROM jsonb_to_recordset(put) AS c (view text, name text, template text, serial bigint)
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS how_many = ROW_COUNT;
    -- New ones have no change yet.
    INSERT INTO rrsets (zone, name, type, covers, ttl, data)
        SELECT z.id, w.name, w.type, w.covers, w.ttl, w.data
        FROM jsonb_to_recordset(put) AS c (view text, name text, rrsets jsonb)
        JOIN zones z ON z.view = c.view AND z.name = c.name AND z.change = 0,
        jsonb_to_recordset(c.rrsets) AS w (name text, type text, covers text, ttl bigint, data text[]);
    before_first := take_numbers(how_many);
    INSERT INTO changes (number, zone, view, name, kind, serial_after, author, node, tag)
        SELECT before_first + row_number() OVER (ORDER BY c.at), z.id, z.view, z.name, 'create', z.serial, c.author,
            by_node, with_tag
        FROM ROWS FROM (jsonb_to_recordset(put) AS (view text, name text, author text))
            WITH ORDINALITY AS c (view, name, author, at)
        JOIN zones z ON z.view = c.view AND z.name = c.name AND z.change = 0;
    UPDATE zones z SET change = n.number
        FROM changes n WHERE n.number > before_first AND z.id = n.zone AND z.change = 0;
    RETURN QUERY
        SELECT c.at, z.id
        FROM ROWS FROM (jsonb_to_recordset(put) AS (view text, name text))
            WITH ORDINALITY AS c (view, name, at)
        JOIN zones z ON z.view = c.view AND z.name = c.name AND z.change > before_first;
END
$$;

-- Commits changes of many zones, each zone once:
--     [{"zone", "before", "after",                                    serials
--       "gone": [{"name", "type", "covers"}],                         RRsets that are removed
--       "rrsets": [{"name", "type", "covers", "ttl", "data"}],        RRsets as they are to be
--       "steps": [{"before", "after", "removed", "added", "author"}]}]
-- A zone whose serial is not `before` is left out. Returns for each zone `committed`, `conflict` or `gone`, and the
-- number of its last change.
CREATE FUNCTION nomen.commit(payload jsonb, by_node text, with_tag bigint)
RETURNS TABLE (of_zone bigint, outcome text, at_number bigint) LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes
-- A plan that was made while the tables were small must not read all of a large one.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    fits jsonb;
    how_many bigint;
    before_first bigint;
    all_fit boolean;
BEGIN
    PERFORM z.id FROM zones z
        WHERE z.id = ANY (ARRAY(SELECT c.zone FROM jsonb_to_recordset(payload) AS c (zone bigint)))
        ORDER BY z.id FOR NO KEY UPDATE;
    SELECT count(*) INTO how_many
        FROM jsonb_to_recordset(payload) AS c (zone bigint, before bigint)
        JOIN zones z ON z.id = c.zone AND z.serial = c.before;
    all_fit := how_many = jsonb_array_length(payload);
    IF all_fit THEN
        fits := payload;
    ELSIF how_many > 0 THEN
        SELECT jsonb_agg(e.c ORDER BY e.at) INTO fits
            FROM jsonb_array_elements(payload) WITH ORDINALITY AS e (c, at)
            JOIN zones z ON z.id = (e.c ->> 'zone')::bigint AND z.serial = (e.c ->> 'before')::bigint;
    END IF;
    IF fits IS NOT NULL THEN
        -- Materialized, so that each RRset is looked up by its key; a zone may have millions.
        WITH w AS MATERIALIZED (
            SELECT c.zone, lower(g.name COLLATE "C") AS name, g.type COLLATE "C" AS type, g.covers COLLATE "C" AS covers
            FROM jsonb_to_recordset(fits) AS c (zone bigint, gone jsonb),
                jsonb_to_recordset(c.gone) AS g (name text, type text, covers text)
        )
        DELETE FROM rrsets r USING w
            WHERE r.zone = w.zone AND lower(r.name) = w.name AND r.type = w.type AND r.covers = w.covers;
        INSERT INTO rrsets AS r (zone, name, type, covers, ttl, data)
            SELECT c.zone, w.name, w.type, w.covers, w.ttl, w.data
            FROM jsonb_to_recordset(fits) AS c (zone bigint, rrsets jsonb),
                jsonb_to_recordset(c.rrsets) AS w (name text, type text, covers text, ttl bigint, data text[])
            ON CONFLICT (zone, lower(name), type, covers)
            DO UPDATE SET name = excluded.name, ttl = excluded.ttl, data = excluded.data;
        SELECT sum(jsonb_array_length(c.steps)) INTO how_many FROM jsonb_to_recordset(fits) AS c (steps jsonb);
        -- A commit without steps only compares the serials.
        IF how_many > 0 THEN
            before_first := take_numbers(how_many);
            INSERT INTO changes
                    (number, zone, view, name, kind, serial_before, serial_after, removed, added, author, node, tag)
                SELECT before_first + row_number() OVER (ORDER BY c.at, s.at), z.id, z.view, z.name, 'change',
                    s.before, s.after, s.removed, s.added, s.author, by_node, with_tag
                FROM ROWS FROM (jsonb_to_recordset(fits) AS (zone bigint, steps jsonb))
                        WITH ORDINALITY AS c (zone, steps, at)
                JOIN zones z ON z.id = c.zone,
                ROWS FROM (
                    jsonb_to_recordset(c.steps)
                        AS (before bigint, after bigint, removed text[], added text[], author text)
                ) WITH ORDINALITY AS s (before, after, removed, added, author, at);
            UPDATE zones z
                SET serial = c.after, change = (SELECT max(n.number) FROM changes n WHERE n.zone = z.id)
                FROM jsonb_to_recordset(fits) AS c (zone bigint, after bigint, steps jsonb)
                WHERE z.id = c.zone AND jsonb_array_length(c.steps) > 0;
        END IF;
    END IF;
    RETURN QUERY
        SELECT c.zone,
            CASE WHEN z.id IS NULL THEN 'gone'
                WHEN all_fit OR c.zone IN (SELECT f.zone FROM jsonb_to_recordset(fits) AS f (zone bigint))
                THEN 'committed' ELSE 'conflict' END,
            z.change
        FROM jsonb_to_recordset(payload) AS c (zone bigint)
        LEFT JOIN zones z ON z.id = c.zone;
END
$$;

-- Removes changes older than `keep`, the oldest first, `most` at most, and nodes that have not reported for 30 days.
-- Returns how many changes were removed.
CREATE FUNCTION nomen.forget_changes(keep interval, most integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    forgotten bigint;
BEGIN
    DELETE FROM nodes WHERE seen < now() - interval '30 days';
    -- Numbers have no gaps above the oldest one that is kept, even if the clock was set back.
    DELETE FROM changes WHERE number IN (
        SELECT o.number FROM (
            SELECT c.number, bool_and(c.at < now() - keep) OVER (ORDER BY c.number) AS is_old
            FROM (SELECT number, at FROM changes ORDER BY number LIMIT most) c
        ) o WHERE o.is_old
    );
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$$;
