package main

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// recipe is a workload to be made: so many pods of one kind, who owns them, and what they do.
type recipe struct {
	name      string
	owner     string // job, statefulset, deployment, or "" for bare pods
	scheduler string
	members   int
	gpus      int64             // of each
	min       int               // members that start together; 0: it is no gang
	group     bool              // the gang is a PodGroup
	rack      bool              // all in one rack
	queue     string            // "": none
	terms     map[string]string // what may be done to it for others, and what it says of itself
	high      bool              // of the class that goes first
	rule      string            // about its own pods: apart, spread or near; about others': aloof, of whom the loud are told; "": none
	disks     bool              // each member has a volume in the zone where it starts
	sim       map[string]string
	life      time.Duration // on the wall, until it is deleted
}

// Labels and annotations on every pod, so that the checks need not believe anybody else's reading.
const (
	labelWorkload = "chaos.example/workload"
	keyMin        = "chaos.example/min"
	labelLoud     = "chaos.example/loud" // with the name of its scheduler: who is aloof keeps away
)

// kinds are the workloads there are, as often as they are listed.
var kinds = []func(*rand.Rand) recipe{
	gangJob, gangJob, gangJob, gangJob, gangJob, groupJob, groupJob, groupJob, single, single, single, single,
	stockJob, stockJob, stockJob, gangSet, gangSet, deployment, deployment, bareGang, ruled, ruled, stockRuled, others, others,
}

// draw makes up a workload.
func draw(r *rand.Rand, name string) recipe {
	c := kinds[r.IntN(len(kinds))](r)
	c.name, c.life = name, between(r, 5*time.Second, time.Minute)
	if c.scheduler == "" {
		c.scheduler = two
		if r.IntN(3) == 0 {
			c.scheduler = one
		}
	}
	if c.scheduler != corev1.DefaultSchedulerName {
		c = charge(r, c)
	}
	c.disks = c.min > 0 && r.IntN(4) == 0
	if r.IntN(10) == 0 {
		c.sim["sim.berth.dev/ignore-sigterm"] = "true"
	}
	return c
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// training is what finite work does: it ends, or it fails on the way.
func training(r *rand.Rand) map[string]string {
	run := between(r, 30*time.Second, 6*time.Minute).Round(time.Second)
	sim := map[string]string{"sim.berth.dev/run": run.String()}
	if r.IntN(6) == 0 {
		sim["sim.berth.dev/fail-after"] = between(r, 10*time.Second, run).Round(time.Second).String()
	}
	return sim
}

// shape is members and GPUs of a gang: half of the cluster at most, a rack if it must fit one.
func shape(r *rand.Rand, c recipe) recipe {
	c.gpus = 1 << r.IntN(4)
	c.members = 2 + r.IntN(7)
	c.rack = r.IntN(3) == 0
	for c.rack && int64(c.members)*c.gpus > 32 {
		c.gpus /= 2
	}
	c.min = c.members
	if r.IntN(4) == 0 {
		c.min = max(1, c.members/2)
	}
	return c
}

func gangJob(r *rand.Rand) recipe {
	c := shape(r, recipe{owner: "job", sim: training(r)})
	if r.IntN(2) == 0 && c.min == c.members {
		c.sim["sim.berth.dev/world"], c.sim["sim.berth.dev/timeout"] = strconv.Itoa(c.members), "3m"
	}
	return c
}

func groupJob(r *rand.Rand) recipe {
	c := gangJob(r)
	c.group, c.rack = true, false
	return c
}

func single(r *rand.Rand) recipe {
	return recipe{members: 1, gpus: 1 << r.IntN(4), sim: training(r)}
}

func stockJob(r *rand.Rand) recipe {
	return recipe{owner: "job", scheduler: corev1.DefaultSchedulerName, members: 1 + r.IntN(4), gpus: 1 << r.IntN(3), sim: training(r)}
}

func gangSet(r *rand.Rand) recipe {
	return shape(r, recipe{owner: "statefulset", sim: map[string]string{}})
}

func deployment(r *rand.Rand) recipe {
	return recipe{owner: "deployment", members: 1 + r.IntN(6), gpus: 1 + r.Int64N(2), sim: map[string]string{}}
}

// rules are required ones between the pods of one workload: others' decisions, which a scheduler cannot know of, do not count
// for them.
var rules = []string{"apart", "spread", "near"}

// ruled is a service with a rule.
func ruled(r *rand.Rand) recipe {
	c := deployment(r)
	c.members, c.rule = 2+r.IntN(5), rules[r.IntN(len(rules))]
	return c
}

// others is a service whose pods are on no node with a loud one of the same scheduler, or a loud service, which has no rule
// itself: the rules of those that run keep it from their nodes.
func others(r *rand.Rand) recipe {
	c := deployment(r)
	c.members, c.gpus, c.rule = 1+r.IntN(3), 1, []string{"aloof", "loud"}[r.IntN(2)]
	return c
}

// stockRuled is one of the stock scheduler's, which the referee must find nothing wrong with.
func stockRuled(r *rand.Rand) recipe {
	c := ruled(r)
	c.scheduler = corev1.DefaultSchedulerName
	return c
}

func bareGang(r *rand.Rand) recipe { return shape(r, recipe{sim: training(r)}) }

// annotations are those of its pods.
func (c recipe) annotations() map[string]string {
	out := make(map[string]string, len(c.sim)+5)
	for k, v := range c.sim {
		out[k] = v
	}
	if c.min > 0 {
		out[keyMin] = strconv.Itoa(c.min)
	}
	if c.min > 0 && !c.group {
		out[v1alpha1.KeyGang], out[v1alpha1.KeyMin] = c.name, strconv.Itoa(c.min)
	}
	if c.queue != "" {
		out[v1alpha1.KeyQueue] = c.queue
	}
	maps.Copy(out, c.terms)
	if c.rack {
		out[v1alpha1.KeyTopologyRequired] = "rack"
	}
	if _, together := c.sim["sim.berth.dev/world"]; together {
		out["sim.berth.dev/group"] = c.name
	}
	return out
}
