-- Schema `nomen`, version 2: sections of the nodes' configuration, which all nodes share.
--
-- Each is one table of a configuration file in TOML, such as [[policy.list]]. They are read with all others after each
-- change, so they are few and small: 10,000 at most, of 64 KiB at most, 16 MiB together.

CREATE TABLE nomen.sections (
    kind text COLLATE "C" NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 255),
    name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 1024),
    toml text NOT NULL CHECK (octet_length(toml) BETWEEN 1 AND 65536),
    place bigint NOT NULL,
    author text NOT NULL,
    node text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    change bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
COMMENT ON TABLE nomen.sections IS 'Sections of the configuration of all nodes';
COMMENT ON COLUMN nomen.sections.kind IS 'The header of its table, such as policy.list';
COMMENT ON COLUMN nomen.sections.place IS 'Orders the sections of a kind';
COMMENT ON COLUMN nomen.sections.change IS 'The number of its last change';

ALTER TABLE nomen.about ADD COLUMN last_section bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN nomen.about.last_section IS 'The number of the last change of a section';

-- A change of a section has kind `section`, zone 0, the kind of the section as its view, and the TOML before and after in
-- `removed` and `added`, which are null where there is none, or where it has a secret.
ALTER TABLE nomen.changes DROP CONSTRAINT changes_kind_check;
ALTER TABLE nomen.changes ADD CONSTRAINT changes_kind_check
    CHECK (kind IN ('create', 'change', 'replace', 'remove', 'properties', 'section'));

CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON nomen.sections
    FOR EACH STATEMENT EXECUTE FUNCTION nomen.guard();

-- Sets and removes sections: [{"kind", "name", "toml", "place"}], with toml null for one that is removed. Without a place
-- a section stays where it is, and a new one comes last. All or nothing. `seen` is the number of the last change of a
-- section that the caller has checked them with; null: any. Returns the numbers before the first and of the last change,
-- the same one if nothing differs; nothing if sections have changed after `seen`.
CREATE FUNCTION nomen.change_sections(edits jsonb, seen bigint, by_author text, by_node text, with_tag bigint)
RETURNS TABLE (before_first bigint, last_one bigint) LANGUAGE plpgsql
SET search_path = nomen, pg_catalog, pg_temp, nomen_writes AS $$
DECLARE
    fits jsonb;
    how_many bigint;
BEGIN
    -- From here on no other transaction takes numbers. Zones are not locked here, so there is no deadlock.
    PERFORM a.last_change FROM about a WHERE a.singleton FOR UPDATE;
    IF seen IS NOT NULL AND EXISTS (SELECT FROM about a WHERE a.last_section <> seen) THEN
        RETURN;
    END IF;
    SELECT jsonb_agg(e.c ORDER BY e.at), count(*) INTO fits, how_many
        FROM jsonb_array_elements(edits) WITH ORDINALITY AS e (c, at)
        LEFT JOIN sections s ON s.kind = e.c ->> 'kind' AND s.name = e.c ->> 'name'
        WHERE s.toml IS DISTINCT FROM (e.c ->> 'toml') OR s.place <> (e.c ->> 'place')::bigint;
    IF how_many = 0 THEN
        RETURN QUERY SELECT a.last_section, a.last_section FROM about a;
        RETURN;
    END IF;
    before_first := take_numbers(how_many);
    INSERT INTO changes (number, zone, view, name, kind, removed, added, author, node, tag)
        SELECT before_first + e.at, 0, e.kind, e.name, 'section',
            CASE WHEN e.kind <> 'tsig-key' AND s.toml IS NOT NULL THEN ARRAY[s.toml] END,
            CASE WHEN e.kind <> 'tsig-key' AND e.toml IS NOT NULL THEN ARRAY[e.toml] END,
            by_author, by_node, with_tag
        FROM ROWS FROM (jsonb_to_recordset(fits) AS (kind text, name text, toml text))
            WITH ORDINALITY AS e (kind, name, toml, at)
        LEFT JOIN sections s ON s.kind = e.kind AND s.name = e.name;
    DELETE FROM sections s USING jsonb_to_recordset(fits) AS e (kind text, name text, toml text)
        WHERE s.kind = e.kind AND s.name = e.name AND e.toml IS NULL;
    INSERT INTO sections AS s (kind, name, toml, place, author, node, change)
        SELECT e.kind, e.name, e.toml, coalesce(e.place, o.place, before_first + e.at), by_author, by_node,
            before_first + e.at
        FROM ROWS FROM (jsonb_to_recordset(fits) AS (kind text, name text, toml text, place bigint))
            WITH ORDINALITY AS e (kind, name, toml, place, at)
        LEFT JOIN sections o ON o.kind = e.kind AND o.name = e.name
        WHERE e.toml IS NOT NULL
        ON CONFLICT (kind, name) DO UPDATE SET toml = excluded.toml, place = excluded.place, author = excluded.author,
            node = excluded.node, at = clock_timestamp(), change = excluded.change;
    IF (SELECT count(*) > 10000 OR sum(octet_length(s.toml)) > 16777216 FROM sections s) THEN
        RAISE EXCEPTION 'there can be 10,000 sections, with 16 MiB together'
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    last_one := before_first + how_many;
    UPDATE about SET last_section = last_one;
    RETURN NEXT;
END
$$;
