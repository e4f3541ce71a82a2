package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/scheduler"
)

// kept are the kinds whose objects a backup holds, by where the API server keeps them: queues, whose status is Berth's memory
// (usage, budgets, promises), and reservations.
var kept = []struct{ kind, plural string }{{v1alpha1.QueueKind, v1alpha1.QueuePlural}, {"Reservation", "reservations"}}

// BackupLimit bounds a backup that is read, in bytes: 10,000 queues have about a twentieth of it.
const BackupLimit = 256 << 20

// Backup is all that a cluster has of the kinds that people and Berth write, as a List in YAML, and how many objects those are. What an
// API server alone decides is left out. A kind that the cluster does not have has no objects.
func Backup(ctx context.Context, client rest.Interface) (text []byte, objects int, err error) {
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	items := []any{}
	for _, k := range kept {
		answer, err := send(ctx, client.Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), k.plural).SetHeader("Accept", runtime.ContentTypeJSON))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", k.plural, err)
		}
		var all unstructured.UnstructuredList
		if err := all.UnmarshalJSON(answer); err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", k.plural, err)
		}
		for i := range all.Items {
			items = append(items, portable(&all.Items[i]).Object)
		}
	}
	list["items"] = items
	if text, err = yaml.Marshal(list); err != nil {
		return nil, 0, err
	}
	return append(text, digestLine(text)+"\n"...), len(items), nil
}

// digestMark begins the last line of a backup: a comment with the digest of all lines before it.
const digestMark = "# sha256:"

func digestLine(text []byte) string {
	sum := sha256.Sum256(text)
	return digestMark + hex.EncodeToString(sum[:])
}

// checkDigest refuses a backup that is not as it was written. One without a digest is taken as it is: an older one, or one
// that somebody edited.
func checkDigest(text []byte) error {
	text = bytes.TrimRight(text, "\r\n")
	at := bytes.LastIndexByte(text, '\n') + 1
	if last := text[at:]; bytes.HasPrefix(last, []byte(digestMark)) && string(last) != digestLine(text[:at]) {
		return errors.New("the backup is not as it was written: it is damaged, or was edited; delete its last line, with the digest, to have it read as it is")
	}
	return nil
}

// portable is the object without what belongs to the cluster that it is in.
func portable(o *unstructured.Unstructured) *unstructured.Unstructured {
	meta := map[string]any{"name": o.GetName()}
	if l := o.GetLabels(); len(l) > 0 {
		meta["labels"] = o.Object["metadata"].(map[string]any)["labels"]
	}
	if a := o.GetAnnotations(); len(a) > 0 {
		meta["annotations"] = o.Object["metadata"].(map[string]any)["annotations"]
	}
	o.Object["metadata"] = meta
	return o
}

// ReadBackup reads what Backup wrote. It refuses objects of other kinds: a backup is not a way to apply manifests.
func ReadBackup(text []byte) ([]*unstructured.Unstructured, error) {
	if len(text) > BackupLimit {
		return nil, fmt.Errorf("the backup has more than %d bytes, which is the most that is read", BackupLimit)
	}
	if err := checkDigest(text); err != nil {
		return nil, err
	}
	var list struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("not a backup: %w", err)
	}
	if list.Kind != "List" {
		return nil, fmt.Errorf("not a backup: it is a %q, want a List", list.Kind)
	}
	var out []*unstructured.Unstructured
	seen := map[string]bool{}
	for i, item := range list.Items {
		o := &unstructured.Unstructured{Object: item}
		if err := checkKept(o); err != nil {
			return nil, fmt.Errorf("object %d of the backup: %w", i+1, err)
		}
		key := o.GetKind() + " " + o.GetName()
		if seen[key] {
			return nil, fmt.Errorf("the backup has %s twice", key)
		}
		seen[key] = true
		out = append(out, portable(o))
	}
	return out, nil
}

func checkKept(o *unstructured.Unstructured) error {
	meta, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("it has no metadata")
	}
	if name, ok := meta["name"].(string); !ok || name == "" {
		return errors.New("it has no name")
	}
	if _, err := plural(o.GetKind()); err != nil || o.GetAPIVersion() != v1alpha1.GroupVersion.String() {
		return fmt.Errorf("%q of %q is not among the kinds that a backup holds", o.GetKind(), o.GetAPIVersion())
	}
	return nil
}

func plural(kind string) (string, error) {
	for _, k := range kept {
		if k.kind == kind {
			return k.plural, nil
		}
	}
	return "", fmt.Errorf("no kind %q", kind)
}

// Leading is who schedules now, "" where nobody does. A scheduler that leads has queues' memory in its own, and would write it over
// what is restored.
func Leading(ctx context.Context, client kubernetes.Interface, now time.Time) (string, error) {
	l, err := client.CoordinationV1().Leases(scheduler.Namespace).Get(ctx, scheduler.DefaultName+"-scheduler", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the scheduler's lease: %w", err)
	}
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return "", nil
	}
	if now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return "", nil
	}
	return *s.HolderIdentity, nil
}

// Restore makes the cluster's objects what the backup says, status included, one after the other. Objects that the backup does not
// have stay as they are. It stops at the first error, and can be done again.
func Restore(ctx context.Context, client rest.Interface, list []*unstructured.Unstructured, dry bool, tell func(Result)) error {
	for _, o := range list {
		did, err := restoreOne(ctx, client, o, dry)
		if err != nil {
			return fmt.Errorf("restore %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		tell(Result{Object: Object{Kind: o.GetKind(), Name: o.GetName()}, Did: did})
	}
	return nil
}

func restoreOne(ctx context.Context, client rest.Interface, o *unstructured.Unstructured, dry bool) (did string, err error) {
	name, err := plural(o.GetKind())
	if err != nil {
		return "", err
	}
	path := []string{"/apis", v1alpha1.GroupVersion.String(), name}
	write := func(r *rest.Request, body *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		if dry {
			r = r.Param("dryRun", metav1.DryRunAll)
		}
		answer, err := send(ctx, r.SetHeader("Accept", runtime.ContentTypeJSON).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(text))
		if err != nil {
			return nil, err
		}
		is := &unstructured.Unstructured{}
		return is, is.UnmarshalJSON(answer)
	}
	have, err := send(ctx, client.Get().AbsPath(append(path, o.GetName())...).SetHeader("Accept", runtime.ContentTypeJSON))
	var is *unstructured.Unstructured
	switch {
	case apierrors.IsNotFound(err):
		did = "created"
		is, err = write(client.Post().AbsPath(path...), o)
	case err == nil:
		did = "replaced"
		before := &unstructured.Unstructured{}
		if err := before.UnmarshalJSON(have); err != nil {
			return "", err
		}
		next := o.DeepCopy()
		next.SetResourceVersion(before.GetResourceVersion())
		is, err = write(client.Put().AbsPath(append(path, o.GetName())...), next)
	}
	if err != nil {
		return "", err
	}
	status, ok := o.Object["status"]
	if !ok || dry { // a status needs an object that is there
		return did, nil
	}
	is.Object["status"] = status
	_, err = write(client.Put().AbsPath(append(path, o.GetName(), "status")...), is)
	return did, err
}
