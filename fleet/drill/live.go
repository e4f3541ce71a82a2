package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const (
	record  = "berth-drill" // the ConfigMap that keeps what is under way
	manager = "berth-drill"
	poll    = 300 * time.Millisecond
	// patience is how long a drill may take to be set up: pods come up, and an earlier namespace goes away.
	patience = 2 * time.Minute
	// settled is how long pods must have been ready: those of a crash loop are for a moment.
	settled = 2 * time.Second
)

// ErrNone says that no drill is under way.
var ErrNone = errors.New("no drill is under way; `berth drill start NAME` starts one")

// State is a drill that is under way.
type State struct {
	Scene
	Started time.Time
	Hints   int      // that were given
	Faults  []string // that the drill made
}

// Ground is the cluster that a drill happens in.
type Ground struct {
	client kubernetes.Interface
	rest   rest.Interface // of the core group, for objects of any
}

// New reaches a cluster.
func New(cfg *rest.Config) (*Ground, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Ground{client, client.CoreV1().RESTClient()}, nil
}

// Start sets up a drill. One that is under way must be stopped before.
func (g *Ground) Start(ctx context.Context, d Drill, seed uint64) (State, error) {
	if s, err := g.state(ctx); err == nil {
		return State{}, fmt.Errorf("the drill %s is under way; `berth drill stop` ends it", s.Drill)
	}
	places, err := g.places(ctx)
	if err != nil {
		return State{}, err
	}
	scene, err := d.Set(seed, places)
	if err != nil {
		return State{}, err
	}
	s := State{Scene: scene}
	if err := g.namespace(ctx); err != nil {
		return State{}, err
	}
	if d.before != "" {
		if err := g.begin(ctx, d, &s); err != nil {
			return State{}, err
		}
	}
	if s.Faults, err = g.apply(ctx, s.Scene, d.incident); err != nil {
		return State{}, err
	}
	s.Started = time.Now()
	return s, g.keep(ctx, s)
}

// begin has the work run before anything goes wrong, and notes where.
func (g *Ground) begin(ctx context.Context, d Drill, s *State) error {
	if _, err := g.apply(ctx, s.Scene, d.before); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := g.pods(ctx, s.Scene)
		if err != nil || len(pods) < s.Replicas {
			return false, err
		}
		s.Node = pods[0].Spec.NodeName
		return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !ready(&p) }), nil
	})
	if err != nil {
		return fmt.Errorf("the work of the drill does not start: has the cluster GPUs free? (%w)", err)
	}
	return nil
}

// namespace makes the drill's, once an earlier one is gone.
func (g *Ground) namespace(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
		_, err := g.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, err
		}
		have, err := g.client.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{})
		return err == nil && have.DeletionTimestamp == nil, client(err)
	})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	return nil
}

// client is an error that trying again does not help against.
func client(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// places are the pools with GPUs, from what the nodes offer.
func (g *Ground) places(ctx context.Context) ([]Place, error) {
	nodes, err := g.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var out []Place
	for i := range nodes.Items {
		n := &nodes.Items[i]
		q := n.Status.Allocatable["nvidia.com/gpu"]
		pool := n.Labels[v1alpha1.KeyPrefix+"pool"]
		if q.Value() < 1 || pool == "" || n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, keepsOff) {
			continue
		}
		at := slices.IndexFunc(out, func(p Place) bool { return p.Pool == pool })
		if at < 0 {
			out, at = append(out, Place{Pool: pool, GPUs: int(q.Value())}), len(out)
		}
		out[at].Nodes++
		out[at].GPUs = min(out[at].GPUs, int(q.Value()))
	}
	return out, nil
}

// keepsOff says whether a taint keeps the work of drills off its node. Pods that ask for GPUs tolerate the taint with the name of
// the resource: the API server of a cluster sees to that.
func keepsOff(t corev1.Taint) bool {
	return t.Key != "nvidia.com/gpu" && t.Effect != corev1.TaintEffectPreferNoSchedule
}

// apply writes the manifests of a template, and names the Faults among them.
func (g *Ground) apply(ctx context.Context, s Scene, text string) (faults []string, err error) {
	text, err = s.render(text)
	if err != nil {
		return nil, err
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         metav1.ObjectMeta
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			return faults, fmt.Errorf("drill %s: %w", s.Drill, err)
		}
		root := "/apis/" + head.APIVersion
		if head.APIVersion == "v1" {
			root = "/api/v1"
		}
		if head.Metadata.Namespace != "" {
			root = path.Join(root, "namespaces", head.Metadata.Namespace)
		}
		at := path.Join(root, strings.ToLower(head.Kind)+"s", head.Metadata.Name)
		err := g.rest.Patch(types.ApplyYAMLPatchType).AbsPath(at).Param("fieldManager", manager).Param("force", "true").Body([]byte(doc)).Do(ctx).Error()
		if err != nil {
			return faults, fmt.Errorf("drill %s: %s %s: %w", s.Drill, head.Kind, head.Metadata.Name, err)
		}
		if head.Kind == "Fault" {
			faults = append(faults, head.Metadata.Name)
			if err := g.closed(ctx, s); err != nil {
				return faults, err
			}
		}
	}
	return faults, nil
}

// closed waits until a fault of the scene's pool shows: work that comes after it must not slip in before. A fault of one node has
// nothing to wait for.
func (g *Ground) closed(ctx context.Context, s Scene) error {
	if s.Node != "" {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		nodes, err := g.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.KeyPrefix + "pool=" + s.Pool})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool {
			gpus := n.Status.Allocatable["nvidia.com/gpu"]
			return !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 && gpus.Value() > 0
		}), nil
	})
	if err != nil {
		return fmt.Errorf("the fault of the drill does not show: %w", err)
	}
	return nil
}

// state reads what is under way.
func (g *Ground) state(ctx context.Context) (State, error) {
	m, err := g.client.CoreV1().ConfigMaps(Namespace).Get(ctx, record, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, ErrNone
	}
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal([]byte(m.Data["state"]), &s); err != nil {
		return State{}, fmt.Errorf("configmap %s/%s is not a drill's: %w", Namespace, record, err)
	}
	return s, nil
}

func (g *Ground) keep(ctx context.Context, s State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: record, Namespace: Namespace}, Data: map[string]string{"state": string(text)}}
	maps := g.client.CoreV1().ConfigMaps(Namespace)
	if _, err = maps.Update(ctx, m, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	return err
}

// Hint gives the next hint, and which of how many it is. After the last it gives the last again.
func (g *Ground) Hint(ctx context.Context) (text string, n, of int, err error) {
	s, err := g.state(ctx)
	if err != nil {
		return "", 0, 0, err
	}
	hints, err := s.Scene.Hints()
	if err != nil {
		return "", 0, 0, err
	}
	s.Hints = min(max(s.Hints, 0)+1, len(hints))
	return hints[s.Hints-1], s.Hints, len(hints), g.keep(ctx, s)
}

// Verdict is how a drill stands.
type Verdict struct {
	Drill   string        `json:"drill"`
	Seed    uint64        `json:"seed"`
	Mended  bool          `json:"mended"`
	Remains []string      `json:"remains"` // what is not as it should be
	Took    time.Duration `json:"-"`
	Seconds float64       `json:"seconds"` // since the start
	Hints   int           `json:"hints"`
}

// Check says whether the drill is mended, and what remains.
func (g *Ground) Check(ctx context.Context) (Verdict, error) {
	s, err := g.state(ctx)
	if err != nil {
		return Verdict{}, err
	}
	d, _ := Find(s.Drill)
	took := time.Since(s.Started).Round(time.Second)
	v := Verdict{Drill: s.Drill, Seed: s.Seed, Took: took, Seconds: took.Seconds(), Hints: s.Hints, Remains: []string{}}
	pods, err := g.pods(ctx, s.Scene)
	if err != nil {
		return v, err
	}
	work, err := g.client.AppsV1().Deployments(Namespace).Get(ctx, s.Work, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		v.Remains = append(v.Remains, fmt.Sprintf("deployment/%s is gone; `berth drill stop` and start again", s.Work))
	case err != nil:
		return v, err
	default:
		v.Remains = append(v.Remains, unfinished(work, pods, s.Scene, time.Now())...)
	}
	targets, missing, err := g.faults(ctx, s)
	if err != nil {
		return v, err
	}
	for _, name := range missing {
		v.Remains = append(v.Remains, fmt.Sprintf("fault/%s was deleted, which no real incident lets you do; `berth drill stop` and start again", name))
	}
	for i := range pods {
		if d.leave && slices.Contains(targets, pods[i].Spec.NodeName) && pods[i].DeletionTimestamp == nil {
			v.Remains = append(v.Remains, fmt.Sprintf("pod %s is still on node %s, which is broken", pods[i].Name, pods[i].Spec.NodeName))
		}
	}
	v.Mended = len(v.Remains) == 0
	return v, nil
}

// unfinished is what the work lacks.
func unfinished(work *appsv1.Deployment, pods []corev1.Pod, s Scene, now time.Time) (out []string) {
	want := s.Replicas
	if n := work.Spec.Replicas; n == nil || int(*n) < want {
		out = append(out, fmt.Sprintf("deployment/%s should have %d replicas", s.Work, want))
	}
	gpus := work.Spec.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
	if gpus.Value() < 1 {
		out = append(out, fmt.Sprintf("deployment/%s should ask for a GPU", s.Work))
	}
	n := 0
	for i := range pods {
		if since := readySince(&pods[i]); !since.IsZero() && now.Sub(since) >= settled && pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	if n < want {
		out = append(out, fmt.Sprintf("deployment/%s has %d of %d pods ready for %s or longer", s.Work, n, want, settled))
	}
	if work.Status.ObservedGeneration < work.Generation || int(work.Status.UpdatedReplicas) < want {
		out = append(out, fmt.Sprintf("deployment/%s is still rolling out", s.Work))
	}
	return out
}

func ready(p *corev1.Pod) bool { return !readySince(p).IsZero() }

func readySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// faults are the nodes that those of the drill hit, and the names of those that are gone.
func (g *Ground) faults(ctx context.Context, s State) (nodes, missing []string, err error) {
	for _, name := range s.Faults {
		raw, err := g.rest.Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "faults", name).Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
			continue
		}
		var f v1alpha1.Fault
		if err == nil {
			err = json.Unmarshal(raw, &f)
		}
		if err != nil {
			return nil, nil, err
		}
		if f.Spec.Node != "" {
			nodes = append(nodes, f.Spec.Node) // at once, whether or not the fleet has looked
		}
		for _, t := range f.Status.Targets {
			node, _, _ := strings.Cut(t, "/")
			nodes = append(nodes, node)
		}
	}
	return nodes, missing, nil
}

// pods are the work's that are not over, in order of name.
func (g *Ground) pods(ctx context.Context, s Scene) ([]corev1.Pod, error) {
	list, err := g.client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + s.Work})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	}), nil
}

// Stop ends the drill, mended or not: its faults heal, its namespace goes, and nodes that were cordoned since are let in again.
func (g *Ground) Stop(ctx context.Context) (State, error) {
	s, err := g.state(ctx)
	if err != nil {
		return State{}, err
	}
	for _, name := range s.Faults {
		err := g.rest.Delete().AbsPath("/apis", v1alpha1.GroupVersion.String(), "faults", name).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return s, err
		}
	}
	if s.Node != "" {
		body := []byte(`{"spec":{"unschedulable":null}}`)
		_, err := g.client.CoreV1().Nodes().Patch(ctx, s.Node, types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return s, err
		}
	}
	if err := g.client.CoreV1().ConfigMaps(Namespace).Delete(ctx, record, metav1.DeleteOptions{}); err != nil {
		return s, err
	}
	return s, client(g.client.CoreV1().Namespaces().Delete(ctx, Namespace, metav1.DeleteOptions{}))
}

// String is how people tell of a scene.
func (s Scene) String() string { return s.Drill + " with seed " + strconv.FormatUint(s.Seed, 10) }
