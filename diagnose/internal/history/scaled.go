package history

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
)

// scaledUp is how the controller of Deployments says that it changed the size of one of their ReplicaSets (kubernetes v1.37.1,
// pkg/controller/deployment/sync.go), and deleted how that of StatefulSets says that it took a pod away
// (pkg/controller/statefulset/stateful_pod_control.go, recordPodEvent).
var (
	scaledUp = regexp.MustCompile(`^Scaled (up|down) replica set (\S+) from (\d+) to (\d+)$`)
	deleted  = regexp.MustCompile(`^delete Pod \S+-(\d+) in StatefulSet \S+ successful$`)
)

const (
	// rolloutLasts is how near in time two such events are of which one is the other's counterpart in a rollout.
	rolloutLasts = 10 * time.Minute
	// desiredReplicas is the annotation of a ReplicaSet with the size of its Deployment when the ReplicaSet was last scaled
	// (pkg/controller/deployment/util, DesiredReplicasAnnotation). An old one keeps what it was at the end of its rollout.
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	revisionKey     = "deployment.kubernetes.io/revision"
)

// Scaled is how large a Deployment or StatefulSet was before it was scaled to its present size, where the cluster still tells:
// by its events, and where it is scaled to none also by its earlier ReplicaSets or by the claims that its pods left. A rollout, in
// which one ReplicaSet grows as another shrinks, is none.
func Scaled(f *facts.Facts, o facts.Object) []Version {
	switch o := o.(type) {
	case *appsv1.Deployment:
		if o.Spec.Replicas == nil {
			return nil
		}
		if v := scaledDeployment(f, o); v != nil || *o.Spec.Replicas > 0 {
			return v
		}
		return sizeOfRevision(f, o)
	case *appsv1.StatefulSet:
		if ptr.Deref(o.Spec.Replicas, 1) == 0 {
			return scaledStatefulSet(f, o)
		}
	}
	return nil
}

func size(from string, was int, now int32) []Version {
	return []Version{{From: from, Changes: []Change{{Path: []string{"spec", "replicas"}, Was: float64(was), Now: float64(now)}}}}
}

func scaledDeployment(f *facts.Facts, d *appsv1.Deployment) []Version {
	events := f.EventsOf(d, "ScalingReplicaSet")
	for _, e := range events {
		m := scaledUp.FindStringSubmatch(e.Message)
		if m == nil || (m[1] == "up" || *d.Spec.Replicas > 0) && (m[1] != "up" || m[3] == "0") || m[4] != fmt.Sprint(*d.Spec.Replicas) {
			continue // scaled up from some pods, or down to none, is what is asked about
		}
		// No rollout takes all pods of the newest template away.
		newest := *d.Spec.Replicas == 0 && newestOf(f, d) == m[2]
		for _, other := range events {
			n := scaledUp.FindStringSubmatch(other.Message)
			if n != nil && !newest && n[2] != m[2] && facts.EventTime(e).Sub(facts.EventTime(other)).Abs() < rolloutLasts {
				return nil
			}
		}
		if was, err := strconv.Atoi(m[3]); err == nil {
			return size("the size before "+facts.EventTime(e).UTC().Format("15:04 MST"), was, *d.Spec.Replicas)
		}
	}
	return nil
}

// newestOf is the name of the Deployment's ReplicaSet of its present revision; "": it was not read.
func newestOf(f *facts.Facts, d *appsv1.Deployment) string {
	for _, r := range replicaSetsOf(f, d) {
		if now := d.Annotations[revisionKey]; now != "" && r.Annotations[revisionKey] == now {
			return r.Name
		}
	}
	return ""
}

func replicaSetsOf(f *facts.Facts, d *appsv1.Deployment) (out []*appsv1.ReplicaSet) {
	for _, o := range f.Children(d) {
		if r, ok := o.(*appsv1.ReplicaSet); ok {
			out = append(out, r)
		}
	}
	return out
}

// sizeOfRevision is the size of the Deployment at the end of the last rollout that left a ReplicaSet with one: events are kept for an
// hour, and a busy controller drops some.
func sizeOfRevision(f *facts.Facts, d *appsv1.Deployment) []Version {
	var last *appsv1.ReplicaSet
	was, newest := 0, 0
	for _, r := range replicaSetsOf(f, d) {
		n, err := strconv.Atoi(r.Annotations[desiredReplicas])
		of, wrong := strconv.Atoi(r.Annotations[revisionKey])
		if err == nil && wrong == nil && n > 0 && of > newest {
			last, was, newest = r, n, of
		}
	}
	if last == nil {
		return nil
	}
	return size(fmt.Sprintf("revision %d", newest), was, *d.Spec.Replicas)
}

// scaledStatefulSet is about one of no pods. Its controller takes the pods of the highest numbers away first; claims outlive them,
// and tell the largest size that it ever had.
func scaledStatefulSet(f *facts.Facts, s *appsv1.StatefulSet) []Version {
	first := 0
	if s.Spec.Ordinals != nil {
		first = int(s.Spec.Ordinals.Start)
	}
	was, at := 0, time.Time{}
	for _, e := range f.EventsOf(s, "SuccessfulDelete") {
		m := deleted.FindStringSubmatch(e.Message)
		if m == nil || !at.IsZero() && at.Sub(facts.EventTime(e)) > rolloutLasts {
			continue // of an earlier time: the newest are first
		}
		if at.IsZero() {
			at = facts.EventTime(e)
		}
		if n, err := strconv.Atoi(m[1]); err == nil {
			was = max(was, n-first+1)
		}
	}
	if was > 0 {
		return size("the size before "+at.UTC().Format("15:04 MST"), was, 0)
	}
	for _, c := range f.PersistentVolumeClaims {
		if c.Namespace != s.Namespace || c.DeletionTimestamp != nil {
			continue
		}
		for i := range s.Spec.VolumeClaimTemplates {
			rest, ok := strings.CutPrefix(c.Name, s.Spec.VolumeClaimTemplates[i].Name+"-"+s.Name+"-")
			if n, err := strconv.Atoi(rest); ok && err == nil && n >= first {
				was = max(was, n-first+1)
			}
		}
	}
	if was == 0 {
		return nil
	}
	return size("the time when its claims were made", was, 0)
}
