//! Authoritative answers: a zone snapshot and a question make an answer.
