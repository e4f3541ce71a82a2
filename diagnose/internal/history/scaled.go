package history

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// scaledUp is how the controller of Deployments says that it changed the size of one of their ReplicaSets (kubernetes v1.37.1,
// pkg/controller/deployment/sync.go).
var scaledUp = regexp.MustCompile(`^Scaled (up|down) replica set (\S+) from (\d+) to (\d+)$`)

// rolloutLasts is how near in time two such events are of which one is the other's counterpart in a rollout.
const rolloutLasts = 10 * time.Minute

// Scaled is how large a Deployment was before it was scaled to its present size, where its events still say so. A rollout, in which
// one ReplicaSet grows as another shrinks, is none.
func Scaled(f *facts.Facts, o facts.Object) []Version {
	d, ok := o.(*appsv1.Deployment)
	if !ok || d.Spec.Replicas == nil {
		return nil
	}
	events := f.EventsOf(d, "ScalingReplicaSet")
	for _, e := range events {
		m := scaledUp.FindStringSubmatch(e.Message)
		if m == nil || (m[1] == "up" || *d.Spec.Replicas > 0) && (m[1] != "up" || m[3] == "0") || m[4] != fmt.Sprint(*d.Spec.Replicas) {
			continue // scaled up from some pods, or down to none, is what is asked about
		}
		for _, other := range events {
			n := scaledUp.FindStringSubmatch(other.Message)
			if n != nil && n[2] != m[2] && facts.EventTime(e).Sub(facts.EventTime(other)).Abs() < rolloutLasts {
				return nil
			}
		}
		was, err := strconv.Atoi(m[3])
		if err != nil {
			continue
		}
		return []Version{{
			From:    "the size before " + facts.EventTime(e).UTC().Format("15:04 MST"),
			Changes: []Change{{Path: []string{"spec", "replicas"}, Was: float64(was), Now: float64(*d.Spec.Replicas)}},
		}}
	}
	return nil
}
