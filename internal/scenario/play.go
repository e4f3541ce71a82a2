package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/rogpeppe/go-internal/txtar"
)

// startTime is the moment at which every story begins.
var startTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Player plays a story on one engine state, step by step.
type Player struct {
	State *engine.State
	Now   time.Time // virtual

	story   *Story
	world   *world
	refused []engine.Rejected // changes that were rejected since they were last shown
	due     []engine.Eviction // planned, and not yet carried out
}

// NewPlayer is a player before the first step.
func NewPlayer(s *Story) *Player {
	return &Player{
		State: engine.Load(engine.Snapshot{Version: engine.SnapshotVersion}, s.Config),
		Now:   startTime,
		story: s,
		world: newWorld(&s.Config, startTime),
	}
}

// Do plays one step and returns the engine's answer, "" for a change.
func (p *Player) Do(step Step) (string, error) {
	switch step.Kind {
	case Change:
		return "", p.change(step)
	case Plan, PlanOnly, PlanStuck:
		return p.plan(step.Kind), nil
	case Explain:
		return engine.DescribeExplanation(p.State.Explain(step.Key, p.Now, 0)), nil
	case Report:
		return engine.DescribeReport(p.State.Report()), nil
	case Queues:
		return engine.DescribeQueues(p.State.QueueUses()), nil
	case Forecast:
		return engine.DescribeForecast(p.Now, p.State.Forecast(p.Now, foreseen)), nil
	case Rejected:
		return engine.DescribeRejected(p.rejected()), nil
	}
	panic("scenario: step of kind " + string(step.Kind))
}

// foreseen is how many of the line a forecast is made for.
const foreseen = 20

func (p *Player) change(step Step) error {
	p.Now = p.Now.Add(step.After)
	p.world.now = p.Now
	p.evict()
	for _, e := range step.edits {
		if err := e.apply(p.world); err != nil {
			return fmt.Errorf("%s:%d: %w", p.story.Name, e.line, err)
		}
	}
	p.tell()
	return nil
}

// tell applies what is new in the world.
func (p *Player) tell() {
	p.refused = append(p.refused, p.State.Apply(p.world.tell(p.State.Dump().Latest)...)...)
}

// rejected is what stands rejected now, and the changes of no lasting effect that were rejected since the
// last time.
func (p *Player) rejected() []engine.Rejected {
	out := p.State.Rejected()
	for _, r := range p.refused {
		known := func(o engine.Rejected) bool { return o.Kind == r.Kind && o.Key == r.Key }
		if !slices.ContainsFunc(out, known) {
			out = append(out, r)
		}
	}
	p.refused = nil
	return out
}

func (p *Player) plan(kind Kind) string {
	plan := p.State.Plan(p.Now)
	text := engine.Describe(plan)
	if kind == PlanOnly {
		return text
	}
	p.State.Apply(plan.Changes...)
	if kind == Plan {
		p.bind(plan)
	}
	return text
}

// bind does what the cluster does when the plan is carried out.
func (p *Player) bind(plan engine.Plan) {
	for _, s := range plan.Starts {
		for _, at := range s.Placements {
			pod := p.world.pods[at.Pod]
			pod.Node, pod.Devices, pod.Nominated, pod.Started = at.Node, at.Devices, "", p.Now
			p.world.pods[at.Pod] = pod
			p.world.touch(engine.KindPod, at.Pod)
		}
	}
	p.due = append(p.due, plan.Evictions...)
	p.evict()
	p.tell()
}

// evict tells the pods whose eviction is due to end; they have their grace. One that stays until the next one runs has
// that made first. An eviction that the engine has given up in the meantime, or whose pod is gone, is none any more.
func (p *Player) evict() {
	stands := map[string]string{}
	for _, e := range p.State.Dump().Evictions {
		stands[e.Pod] = e.UID
	}
	var later []engine.Eviction
	for _, e := range p.due {
		pod, known := p.world.pods[e.Pod]
		uid, still := stands[e.Pod]
		switch {
		case !known || !still || pod.UID != e.UID || uid != e.UID || pod.Terminating || pod.Node == "":
		case e.At.After(p.Now) || e.Surge && !p.world.followed(pod):
			later = append(later, e)
		default:
			pod.Terminating, pod.ReleaseAt = true, e.At.Add(p.world.grace(pod))
			p.world.pods[e.Pod] = pod
			p.world.touch(engine.KindPod, e.Pod)
		}
	}
	p.due = later
}

// Run plays a story from its start and returns its file with the answers as they are now. A story in
// which something is rejected must show it: else it does not tell what its author thinks.
func Run(s *Story) ([]byte, error) {
	archive := *s.archive
	archive.Files = slices.Clone(archive.Files)
	p := NewPlayer(s)
	for _, step := range s.Steps {
		out, err := p.Do(step)
		if err != nil {
			return nil, err
		}
		if step.Kind != Change {
			archive.Files[step.section].Data = []byte(out)
		}
	}
	shown := slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Kind == Rejected })
	if all := p.rejected(); len(all) > 0 && !shown {
		return nil, fmt.Errorf("%s: expected a -- rejected -- section, for the engine rejects:\n%s", s.Name, engine.DescribeRejected(all))
	}
	return txtar.Format(&archive), nil
}
