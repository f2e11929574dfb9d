"""The sentences that say what was found, and what to type next: one for each kind of `Finding`, for all surfaces.

`{mean:fixed}` is a value of the finding and how it is written (`findings.FILTERS`); `{images}` is a finding of its own,
or nothing. A first sentence (`headline.`) has at most 25 words and two numbers; `part.` is a piece of other sentences.
"""

SENTENCES = {
    # the first sentence of a study
    "headline.tasks unfinished": "No mean over tasks yet: no task has all its runs.",
    "headline.task mean": "{name:quoted} has the highest mean over tasks, {mean:fixed}{follows}.",
    "headline.task means": "{names:listed} share the highest mean over tasks, {mean:fixed}{follows}.",
    "headline.race ended the leader": (
        "Nothing is decided: {name:quoted}, which the race has ended, is ahead; compare without a race."
    ),
    "headline.unfinished": "No answer yet: {missing:listed}.",
    "headline.no seeds": "No answer yet: no trial has all its seeds.",
    "headline.one may be above chance": (
        "No trial that has all its seeds is above chance ({chance:number}), but {trial} may be."
    ),
    "headline.at chance": "No trial is above chance ({chance:number}): nothing was learned in {epochs:plural epoch}.",
    "headline.at chance so far": "No trial is above chance ({chance:number}): nothing was learned so far.",
    "headline.too easy": "All {trials} trials reach the highest score there is: the task is too easy for them.",
    "headline.tie": "{trials:listed} tie with the highest {metric:metric}, {score:fixed}.",
    "headline.tie so far": "{trials:listed} tie with the highest {metric:metric} so far, {score:fixed}.",
    "headline.unconfirmed": ("{trial} is highest so far: {metric:metric} {score:fixed}, not confirmed on fresh seeds."),
    "headline.confirmed": "{trial} comes out best: {metric:metric} {score:fixed} on fresh seeds{images}.",
    "headline.best": "{name:quoted} comes out best by validation: {metric:metric} {score:fixed}{images}{beside}.",
    "headline.best so far": (
        "{name:quoted} comes out best so far by validation: {metric:metric} {score:fixed}{images}{beside}."
    ),
    "headline.race goes on": (
        "Nothing to take yet: the race is not over; {name:quoted} is ahead, with {seeds} of {asked:plural seed}."
    ),
    "headline.race failed": (
        "Nothing to take yet: runs failed; {name:quoted} is ahead, with {seeds} of {asked:plural seed}."
    ),
    "headline.few seeds": (
        "Nothing is decided: a test needs {fewest} seeds; {name:quoted} is the highest by validation."
    ),
    "headline.another above": (
        "Nothing is decided: validation chooses {name:quoted}, but {other:quoted} is significantly above it{images}."
    ),
    "headline.all level": (
        "Nothing is decided: no trial is told apart from {name:quoted}, the highest by validation{images}."
    ),
    "headline.take": "Take {name:quoted}: it is significantly above {partner:quoted}{images}, by {gap:fixed}.",
    "headline.take of others": "Take {name:quoted}: it is told apart from {others:plural other trial}{images}.",
    "headline.trained": "Trained {epochs:plural epoch}, {found:small}",
    "headline.trained, rising": "Trained {epochs:plural epoch}, where scores still rise, {found:small}",
    # the sentences after it
    "detail.tested": "{trial} has {metric:metric} {score}.",
    "detail.tested on fresh seeds": "{trial} has {metric:metric} {score} on fresh seeds.",
    "detail.beside": "It is {gap:beside} {partner:quoted} ({sureness}).",
    "detail.baseline": "It is the baseline.",
    "detail.is first": "It was tried first.",
    "detail.first": "The point tried first, {trial}, has {score}.",
    "detail.random": "The best of {points:plural random point}, {trial}, has {score}.",
    "detail.above on tests": (
        "On the test images, which choose nothing, {trial} is {gap:fixed} above it (p {sureness})."
    ),
    "detail.highest test": "On the {images:plural image} of the test set, which choose nothing, {trial} has {score}.",
    "detail.untested": "With {seeds:plural seed} no difference can be tested.",
    "detail.level": "Not told apart from it: {gaps:semicolons}.",
    "detail.task count": "Means are over {tasks:plural task}; a difference is tested only where a claim asks for it.",
    "detail.leaders": "Ahead by validation: {leaders:semicolons}.",
    "detail.doubling": "At the longest training a doubling of its length brings {gain:fixed}{interval}.",
    "detail.diverged": "Diverged, and counted at chance: {trials:listed}.",
    "detail.raced": "Ended by the race (validation): {trials}.",
    "detail.cost": "It costs {costs:listed}{busy}.",
    "detail.size": "On test images of {side} x {side} pixels {scores:listed}.",
    "detail.missing": "Not finished: {missing:listed}.",
    # pieces of these
    "part.arm": "{name:quoted}",
    "part.point": "#{label} ({name})",
    "part.tabled point": "#{label} {name}",
    "part.tabled first": "#{label} {name} (tried first)",
    "part.tabled random": "#{label} {name} (best of {points:plural random point})",
    "part.more trials": "{count:plural more trial}",
    "part.more methods": "{count:plural more method}",
    "part.images": " on these {count:plural test image}",
    "part.these images": " on these test images",
    "part.above": ", significantly above {partner:quoted}",
    "part.not above": ", not significantly above {partner:quoted}",
    "part.follows": "; {name:quoted} follows with {mean:fixed}",
    "part.score": "{mean:fixed} ({spread})",
    "part.unknown": "unknown",
    "part.level": "{trial}, {gap:beside} it ({seeds:plural seed}; {least:fixed} or more can be seen)",
    "part.leader": "{name:quoted} at {lengths:listed} epochs",
    "part.interval": " (95 % interval {low:fixed} to {high:fixed})",
    "part.diverged": "{diverged} of {seeds:plural seed} of {trial}",
    "part.size": "{name:quoted} has {mean:fixed}",
    "part.cost": "{own:two} ms an image in {work}",
    "part.cost beside": "{own:two} ms an image in {work} ({partner:quoted} {other:two})",
    "part.cost alike": "{own:two} ms an image in {work} ({partner:quoted} {other:two}, not distinguishable)",
    "part.parameters": "{count:count} parameters",
    "part.parameters beside": "{count:count} parameters ({more:more})",
    "part.not begun": "{count:plural trial} not begun",
    "part.begun": "{count:plural trial} begun",
    "part.failed": "{count:plural trial} with failed runs",
    "part.stale": "{count:plural answer} of other code that do not count",
    # the seeds of a trial, behind its score
    "part.spread": "95 % interval {low:fixed} to {high:fixed}, {seeds}",
    "part.spread of the best": "95 % interval for the best of {trials}: {low:fixed} to {high:fixed}, {seeds}",
    "part.seeds": "{seeds:plural seed}{diverged}",
    "part.seed scores": "{seeds:plural seed}: {scores:scores}{diverged}",
    "part.also diverged": ", {count} diverged",
    # why a claim cannot be decided yet
    "lacking.answers": "{name:quoted} has no test score{where} yet.",
    "lacking.values": "{name:quoted} has no value of the probe yet.",
    "lacking.gains": (
        "{seeds:plural seed} of {name:quoted} had nothing to keep: no answer yet, or a score at chance at the "
        "training's own side."
    ),
    "lacking.some answers": "Only {seeds} of {asked:plural seed} of {name:quoted} have an answer.",
    "lacking.some values": "Only {seeds} of {asked:plural seed} of {name:quoted} have a value of the probe.",
    "lacking.seeds": "{name:quoted} has {seeds}; a claim needs {fewest} seeds or more.",
    "lacking.any score": "All {seeds} seeds of {name:quoted} diverged, which shows no score at all.",
    "lacking.scores": "{diverged} of {seeds} seeds of {name:quoted} diverged, which shows no score at all.",
    "lacking.seeds that train": (
        "{failed} of {seeds} seeds of {name:quoted} failed; the claim needs {fewest} seeds that train."
    ),
    "lacking.pairs": "{names:names} share {pairs:plural seed}; a claim needs {fewest}.",
    "lacking.likeness": (
        "The maps of two seeds of {name:quoted} correlate by {mean:fixed} only, so being as alike as they are says "
        "nothing."
    ),
    # what the scores show about a claim
    "claim.decided": (
        "{about:capital} (95 % interval {low:fixed} to {high:fixed}, {seeds}{images:joined}); {place} (p {p:p})."
    ),
    "claim.score": "{measured} ({spread})",
    "about.score": "{name:quoted} has test score {mean:fixed}{where}",
    "about.value": "{name:quoted} has {mean:fixed}{where}",
    "about.share": "{name:quoted} keeps {mean:fixed} of what it scores above chance{where}",
    "about.maps": "the maps of {names:names} correlate by {mean:fixed}",
    "about.maps of seeds": "those of two seeds of {name:quoted} by {mean:fixed}",
    "about.difference": "{who:quoted} minus {than:quoted} is {gap:signed}{where}",
    "about.shares": "the share kept by {who:quoted} minus that of {than:quoted} is {gap:signed}{where}",
    "about.likeness": "{measured:semicolons}: {gap:signed}",
    "about.one trial": "{names:names} are the same trial; {difference}",
    "about.slope": "the slope along {names} is {slope:signed} a step{where}",
    "region.chance": "the margin of {margin:short} around chance, {center:number}",
    "region.zero": "the margin of {margin:short} around 0",
    "region.ends": "{low:number} to {high:number}",
    "place.inside": "the interval lies inside {region}",
    "place.outside": "the interval lies outside {region}",
    "place.partly outside": "the interval lies partly outside {region}",
    "place.above": "the interval lies above {line:number}",
    "place.below": "the interval lies below {line:number}",
    "place.contains": "the interval contains {line:number}",
    "part.test images": ", {count} test images",
    "part.draws": ", {count} draws of images",
    "part.folds": ", folds of the same images",
    "part.trial": "{name:quoted} {seeds}",
    "part.diverged seeds": "{count} diverged",
    "part.pairs": "{parts:commas}",
    "part.seed count": "{count:plural seed}",
    "unseen.none failed": (
        "of {count} {runs} each none failed; up to {most:percent} of a trial's {runs} may score otherwise"
    ),
    "unseen.some failed": (
        "of {count} {runs} {failed} failed; up to {most:percent} of a trial's {runs} may score otherwise"
    ),
    # what to type next
    "next.seeds": (
        "a difference of {gap:fixed} is found with a power of {power:percent} at the level {level:level}; about "
        "{minutes:minutes} of training"
    ),
}
