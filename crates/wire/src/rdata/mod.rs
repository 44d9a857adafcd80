//! Record data: one file per type, each a description of its fields that serves every use.
#[derive(PartialEq,Eq,Clone,Copy,Debug)]
pub enum NameRule { Compress, Lower, Plain }
pub struct EmbeddedName { pub start: usize, pub len: usize, pub rule: NameRule }
pub fn embedded_names(t: crate::Type, rdata: &[u8]) -> impl Iterator<Item=EmbeddedName> {
  let start = match t { crate::Type::MX => 2, crate::Type::NS => 0, _ => 99999 };
  (start < rdata.len()).then(|| EmbeddedName{start, len: rdata.len()-start, rule: NameRule::Compress}).into_iter()
}
