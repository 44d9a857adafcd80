//! The OpenAPI 3.1 document, made from the table of routes and the schemas of their replies.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use config::api::ApiRight;
use config::table::value::Word;

use super::route::{Argument, ArgumentKind, Route, ZONE};
use super::schemas::{EDIT, ERROR, Member, MemberKind, Schema, Shape};
use super::{BASE, DOCUMENT_PATH, table};

/// The document, which does not change.
static DOCUMENT: LazyLock<Value> = LazyLock::new(make);

/// Returns the document.
pub(crate) fn document() -> Value {
    DOCUMENT.clone()
}

fn make() -> Value {
    let mut paths = Map::new();
    let mut schemas =
        Map::from_iter([&ERROR, &EDIT].map(|schema| (schema.name.to_owned(), of_schema(schema))));
    for route in table::routes() {
        let entry = paths.entry(format!("{BASE}{}", route.path)).or_insert_with(|| json!({}));
        entry[route.method.to_ascii_lowercase()] = operation(route);
        add_schema(route.reply, &mut schemas);
    }
    let own = json!({
        "operationId": "get-openapi.json",
        "summary": "This document.",
        "security": [],
        "responses": {"200": {"description": "The document.", "content": {"application/json": {}}}},
    });
    paths.insert(DOCUMENT_PATH.to_owned(), json!({"get": own}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nomen",
            "version": "1",
            "description": "Zones, records, keys, caches and policies of a running nomen.",
        },
        "security": [{"key": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": schemas,
        },
    })
}

/// Returns the identifier of a route's operation.
fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches('/').replace(ZONE, "zone").replace('/', "-");
    format!("{}-{path}", route.method.to_ascii_lowercase())
}

fn operation(route: &Route) -> Value {
    let (right, of) = route.need.in_words();
    let word =
        right.and_then(|right| ApiRight::WORDS.iter().find(|(_, of)| *of == right)).map(|(word, _)| *word);
    let right = word.map_or_else(|| "Any token.".to_owned(), |word| format!("Right \"{word}\" for {of}."));
    let mut parameters = Vec::new();
    if route.path.contains(ZONE) {
        parameters.push(json!({
            "name": "zone",
            "in": "path",
            "required": true,
            "description": "The zone's name, or ZONE@VIEW in a view; a final dot is optional.",
            "schema": {"type": "string"},
        }));
    }
    if route.has_query() {
        parameters.extend(route.arguments.iter().map(|argument| {
            json!({
                "name": argument.name,
                "in": "query",
                "required": argument.required,
                "description": argument.about,
                "schema": of_argument(argument),
            })
        }));
    }
    let media_type = match route.reply.shape {
        Shape::Text => "text/plain",
        Shape::Events(_) => "text/event-stream",
        Shape::Object(_) | Shape::Map | Shape::List(_) => "application/json",
    };
    let good = json!({
        "description": route.reply.about,
        "content": {media_type: {"schema": reference(route.reply)}},
    });
    let bad = json!({
        "description": ERROR.about,
        "content": {"application/json": {"schema": reference(&ERROR)}},
    });
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "description": right,
        "parameters": parameters,
        "responses": {"200": good, "default": bad},
    });
    if !route.has_query() && !route.arguments.is_empty() {
        let members = route.arguments.iter().map(|argument| (argument.name.to_owned(), described(argument)));
        let needed = route.arguments.iter().filter(|argument| argument.required);
        let names: Vec<&str> = needed.map(|argument| argument.name).collect();
        let schema = json!({
            "type": "object",
            "properties": members.collect::<Map<_, _>>(),
            "required": names,
            "additionalProperties": false,
        });
        operation["requestBody"] =
            json!({"required": !names.is_empty(), "content": {"application/json": {"schema": schema}}});
    }
    operation
}

fn described(argument: &Argument) -> Value {
    let mut schema = of_argument(argument);
    schema["description"] = argument.about.into();
    schema
}

fn of_argument(argument: &Argument) -> Value {
    match argument.kind {
        ArgumentKind::Text => json!({"type": "string"}),
        ArgumentKind::Words(words) => json!({"type": "string", "enum": words}),
        ArgumentKind::Flag => json!({"type": "boolean"}),
        ArgumentKind::Number => json!({"type": "integer", "minimum": 0}),
        ArgumentKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        ArgumentKind::Objects(schema) => {
            json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{schema}")}})
        }
    }
}

fn reference(schema: &Schema) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", schema.name)})
}

/// Adds a schema, and those that it names.
fn add_schema(schema: &Schema, schemas: &mut Map<String, Value>) {
    if schemas.insert(schema.name.to_owned(), of_schema(schema)).is_some() {
        return;
    }
    let (Shape::Object(members) | Shape::List(members) | Shape::Events(members)) = schema.shape else {
        return;
    };
    for (_, kind) in members {
        if let MemberKind::Rows(inner) | MemberKind::One(inner) = kind {
            add_schema(inner, schemas);
        }
    }
}

fn of_schema(schema: &Schema) -> Value {
    let object = |members: &[Member]| {
        let properties = members.iter().map(|(name, kind)| ((*name).to_owned(), of_kind(*kind)));
        json!({"type": "object", "properties": properties.collect::<Map<_, _>>()})
    };
    let mut shown = match schema.shape {
        Shape::Object(members) => object(members),
        Shape::Map => json!({"type": "object", "additionalProperties": true}),
        Shape::List(members) => json!({"type": "array", "items": object(members)}),
        Shape::Text => json!({"type": "string"}),
        Shape::Events(members) => object(members),
    };
    shown["description"] = schema.about.into();
    shown
}

fn of_kind(kind: MemberKind) -> Value {
    match kind {
        MemberKind::Text => json!({"type": ["string", "null"]}),
        MemberKind::Number => json!({"type": ["number", "null"]}),
        MemberKind::Flag => json!({"type": ["boolean", "null"]}),
        MemberKind::Object => json!({"type": ["object", "null"]}),
        MemberKind::Texts => json!({"type": ["array", "null"], "items": {"type": "string"}}),
        MemberKind::Objects => json!({"type": ["array", "null"], "items": {"type": "object"}}),
        MemberKind::Rows(schema) => json!({"type": "array", "items": reference(schema)}),
        MemberKind::One(schema) => reference(schema),
        MemberKind::Any => json!({}),
    }
}
