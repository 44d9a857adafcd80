//! Collects a stage's results as rows: answers that differ, loads, starts, and what was left out.

use super::{Records, Scene, differ_text, given, part, voting};
use crate::answers;
use crate::report::{Agreement, FROM_IMAGE, Figures, Group, Loading, Noise, Results, Row};
use crate::servers::{Kind, Startup};
use crate::workloads::{Cell, Workload};

/// Compares the answers of the first round; a server that differs from the majority is no longer timed.
pub(super) fn judge(scene: &Scene, records: &mut Records, results: &mut Results) {
    for task in &scene.tasks {
        let workload = task.workload;
        let given = given(workload, records);
        let found = answers::compare(&voting(&given));
        let verdicts: Vec<(Kind, answers::Difference)> =
            given.iter().map(|(kind, _)| *kind).zip(found).collect();
        let asked = task.sample.len();
        let mut agreements = Vec::new();
        for (kind, difference) in verdicts {
            if difference.count > 0 {
                let text = differ_text(difference.count, asked);
                let example = difference.example.as_deref().unwrap_or("");
                eprintln!("  {}, {}: {text}: {example}", workload.name(), kind.name());
                let part = part(records, kind, workload);
                part.trouble = Some(text);
                part.samples.clear();
            }
            let (differ, example) = (difference.count, difference.example);
            agreements.push(Agreement { server: kind.name().to_string(), asked, differ, example });
        }
        let (workload, title) = (workload.name(), workload.title(&scene.plan.sizes));
        results.groups.push(Group { workload, title, answers: agreements });
    }
}

/// Adds a stage's results to the results of the run.
pub(super) fn gather(scene: &Scene, records: &Records, results: &mut Results) {
    for task in &scene.tasks {
        gather_rows(task.workload, records, results);
    }
    let starts = scene.stage.of_starts().name();
    let loading = |server: &str, starts_of: &[Startup]| {
        Loading::new(&starts, server, &scene.zones.key, scene.zones.records, starts_of)
    };
    for (kind, record) in records {
        let row = match (loading(kind.name(), &record.starts), &record.trouble) {
            (None, Some(trouble)) => {
                Some(Loading::missing(&starts, kind.name(), &scene.zones.key, scene.zones.records, trouble))
            }
            (row, _) => row,
        };
        results.loading.extend(row.filter(|_| kind.answers() && scene.stage.base.has_starts()));
        results.loading.extend(loading(FROM_IMAGE, &record.restarts));
        if let Some(trouble) = &record.trouble {
            results.skip(*kind, format!("{}, {}: {trouble}", scene.name(), kind.name()));
        }
        for (what, trouble) in &record.aside {
            results.skip(*kind, format!("{}, {}, {what}: {trouble}", scene.name(), kind.name()));
        }
    }
    if scene.stage.restarts() && !scene.images && scene.plan.servers.contains(&Kind::Nomen) {
        results.skipped.push("restart: this nomen keeps no images".to_string());
    }
}

fn gather_rows(workload: Workload, records: &Records, results: &mut Results) {
    let parts =
        || records.iter().filter_map(|(kind, record)| Some((kind, record, record.parts.get(&workload)?)));
    let mut cells: Vec<Cell> = parts().flat_map(|(_, _, part)| part.samples.keys().copied()).collect();
    cells.sort();
    cells.dedup();
    for cell in cells {
        for (kind, record, part) in parts() {
            let Some(samples) = part.samples.get(&cell) else { continue };
            results.rows.push(Row {
                workload: workload.name(),
                load: cell.name(),
                server: kind.name().to_string(),
                rounds: samples.len(),
                figures: Figures::median(samples),
                noise: Noise::of(samples),
                samples: samples.clone(),
                rcodes: part.rcodes.get(&cell).cloned().unwrap_or_default(),
                note: part.trouble.clone().or_else(|| record.trouble.clone()),
            });
        }
    }
    let troubles: Vec<(Kind, String)> =
        parts().filter_map(|(kind, _, part)| Some((*kind, part.trouble.clone()?))).collect();
    let broken: Vec<(Kind, String)> = parts()
        .flat_map(|(kind, _, part)| {
            part.broken.iter().map(|(cell, why)| (*kind, format!("{}: {why}", cell.name())))
        })
        .collect();
    for (kind, trouble) in troubles.into_iter().chain(broken) {
        results.skip(kind, format!("{}, {}: {trouble}", workload.name(), kind.name()));
    }
}
