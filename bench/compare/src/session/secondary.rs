//! Turns of secondaries of very many zones.

use std::sync::Arc;

use super::{Records, Scene, look, part};
use crate::failure::Result;
use crate::provider::{Provider, SmallZones};
use crate::secondaries::Secondaries;
use crate::servers::Kind;
use crate::workloads::{Cell, Phase};

/// Runs a secondary's turn: each phase begins in the state after the one before, so a failure ends it.
pub(super) fn turn(scene: &Scene, small: &Arc<SmallZones>, kind: Kind, records: &mut Records) -> Result<()> {
    let Some(task) = scene.tasks.first() else { return Ok(()) };
    let settings = scene.settings(kind, false, 0);
    let provider = Provider::start(scene.upstream_address(), scene.plan.upstream_cpu, small)?;
    let (plan, set) = (scene.plan, &scene.zones);
    let all = Secondaries { plan, kind, settings: &settings, set, zones: small, provider: &provider };
    let mut phase = Phase::Start;
    let mut run = |records: &mut Records| -> Result<()> {
        let add = |records: &mut Records, phase, measured| {
            part(records, kind, task.workload).add(scene, Cell::Secondary(phase), Ok(measured))
        };
        let (server, measured) = all.start(phase)?;
        add(records, phase, measured)?;
        look(scene, task, kind, &server, records)?;
        if part(records, kind, task.workload).trouble.is_some() {
            return Ok(());
        }
        phase = Phase::Change;
        add(records, phase, all.change(&server)?)?;
        phase = Phase::Restart;
        all.end(server)?;
        let (server, measured) = all.start(phase)?;
        add(records, phase, measured)?;
        phase = Phase::Refresh;
        add(records, phase, all.refresh(&server)?)
    };
    match run(records) {
        Err(failure) => part(records, kind, task.workload).add(scene, Cell::Secondary(phase), Err(failure)),
        done => done,
    }
}
