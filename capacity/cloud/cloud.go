// Package cloud reads reservations out of what the clouds' command lines print: `aws ec2 describe-capacity-reservations`, `gcloud compute
// reservations list` and `future-reservations list`, `az capacity reservation list`, each as JSON. It calls no cloud and writes no
// object: the command line does, with what it returns. The text is somebody else's: it is bounded, what cannot be read is an
// error, and what has no field of its own is kept aside as text.
package cloud

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

// Bounds of a text and of what is kept of it.
const (
	MaxBytes        = 64 << 20
	MaxReservations = 10_000
	maxAside        = 64
	maxPath         = 256
	maxValue        = 512
)

// Read reads the reservations of the provider as of a time. skipped says, a sentence each, which it leaves out and why: without GPUs,
// or not understood.
func Read(provider v1alpha1.Provider, text []byte, at time.Time) (out []v1alpha1.Reservation, skipped []string, err error) {
	if len(text) > MaxBytes {
		return nil, nil, fmt.Errorf("there are more than %d MiB", MaxBytes>>20)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, nil, fmt.Errorf("this is no JSON of a cloud's command line: %w", err)
	}
	items, err := itemsOf(tree)
	if err != nil {
		return nil, nil, err
	}
	reader, known := readers[provider]
	if !known {
		return nil, nil, fmt.Errorf("nothing is known of provider %q", provider)
	}
	for _, item := range items {
		f := &fields{tree: item, used: make(map[string]bool)}
		r, err := reader(f)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%s: %v", shortened(r.Name), err))
			continue
		}
		r.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Reservation"}
		r.Spec.Provider = provider
		observed := metav1.NewTime(at.UTC().Truncate(time.Second))
		r.Status.ObservedAt, r.Status.Reported = &observed, f.aside()
		out = append(out, r)
	}
	return apart(out), skipped, nil
}

// apart gives each reservation a name of its own, and sorts them by it. What is printed twice counts once: groups list what they have, too.
// Of several whose names make one object's name, as in two projects, the first by id has it.
func apart(list []v1alpha1.Reservation) []v1alpha1.Reservation {
	order := func(a, b v1alpha1.Reservation) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(plainID(&a), plainID(&b)))
	}
	slices.SortStableFunc(list, order)
	list = slices.CompactFunc(list, func(a, b v1alpha1.Reservation) bool { return order(a, b) == 0 })
	name := ""
	for i := range list {
		if same := list[i].Name == name; same {
			list[i].Name = OtherName(&list[i])
		} else {
			name = list[i].Name
		}
	}
	slices.SortFunc(list, order)
	return list
}

// OtherName is the name of the reservation's object where another reservation has the one that it would have. It follows from the
// reservation's id.
func OtherName(r *v1alpha1.Reservation) string { return ended(r.Name, plainID(r)) }

// SameID says whether both are what one provider gave one id.
func SameID(a, b *v1alpha1.Reservation) bool {
	return a.Spec.Provider == b.Spec.Provider && plainID(a) == plainID(b)
}

// plainID is the reservation's id in lower case: Azure does not always print the same one.
func plainID(r *v1alpha1.Reservation) string { return strings.ToLower(r.Spec.ID) }

// ended is the name with an end that tells what it stands for, as long as names of objects may be.
func ended(name, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	end := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:min(len(name), longestName-len(end))], "-.") + end
}

// longestName is how long names of objects are at most.
const longestName = 63

// errNoGPUs is of a reservation that is none of ours.
var errNoGPUs = errors.New("its machines have no GPUs that are known")

var readers = map[v1alpha1.Provider]func(*fields) (v1alpha1.Reservation, error){
	v1alpha1.ProviderAWS: readAWS, v1alpha1.ProviderGCP: readGCP, v1alpha1.ProviderAzure: readAzure,
}

// lists are the fields under which command lines print several.
var lists = []string{"CapacityReservations", "capacityReservations", "items", "value", "CapacityBlocks", "CapacityBlockOfferings"}

// itemsOf are the objects that a text has: one, a list, or a list under the name that the command line gives it.
func itemsOf(tree any) ([]map[string]any, error) {
	switch t := tree.(type) {
	case []any:
		var out []map[string]any
		for _, item := range t {
			more, err := itemsOf(item)
			if err != nil {
				return nil, err
			}
			if out = append(out, more...); len(out) > MaxReservations {
				return nil, fmt.Errorf("there are more than %d reservations", MaxReservations)
			}
		}
		return out, nil
	case map[string]any:
		if one, ok := t["CapacityReservation"].(map[string]any); ok { // that was created or bought just now
			return []map[string]any{one}, nil
		}
		for _, key := range lists {
			if list, ok := t[key].([]any); ok {
				return itemsOf(list)
			}
		}
		return []map[string]any{t}, nil
	}
	return nil, errors.New("this is no list of reservations")
}

// gpusOf completes what a machine type says of its GPUs.
func gpusOf(r *v1alpha1.Reservation, model string, count int64) error {
	if count == 0 {
		count, _ = gpustack.InstanceGPUs(r.Spec.InstanceType)
	}
	if model == "" {
		model = modelOf(r.Spec.InstanceType)
	}
	if count <= 0 || count > 64 {
		return errNoGPUs
	}
	r.Spec.GPUs = v1alpha1.ReservedGPUs{Model: model, Count: int32(count)}
	return nil
}

// models are the GPUs of machine types, by how their names begin; the longer beginning comes first.
var models = []struct{ prefix, model string }{
	{"p5en.", "H200"}, {"p5e.", "H200"}, {"p5.", "H100-SXM5-80GB"}, {"p4de.", "A100-SXM4-80GB"}, {"p4d.", "A100-SXM4-40GB"}, {"p6-b200.", "B200"}, {"p6-b300.", "B300"}, {"p6e-gb200.", "GB200"}, {"p6e-gb300.", "GB300"}, {"g6e.", "L40S"}, {"g6.", "L4"}, {"g5.", "A10G"}, {"g4dn.", "T4"},
	{"a3-ultragpu", "H200"}, {"a3-", "H100-SXM5-80GB"}, {"a4x-max", "GB300"}, {"a4x-", "GB200"}, {"a4-", "B200"}, {"a2-ultragpu", "A100-SXM4-80GB"}, {"a2-", "A100-SXM4-40GB"}, {"g2-", "L4"},
}

func modelOf(kind string) string {
	for _, m := range models {
		if strings.HasPrefix(kind, m.prefix) {
			return m.model
		}
	}
	for _, name := range []string{"GB300", "GB200", "H200", "H100", "A100"} { // Azure writes it into the name
		if strings.Contains(strings.ToUpper(kind), "_"+name+"_") {
			return name
		}
	}
	return ""
}

// objectName is a name that the API server takes: lower case, and dashes for what it may not have.
func objectName(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, s)
	for strings.Contains(s, "..") || strings.Contains(s, ".-") || strings.Contains(s, "-.") {
		s = strings.NewReplacer("..", ".", ".-", ".", "-.", ".").Replace(s)
	}
	s = strings.Trim(s, "-.")
	if len(s) > longestName { // two may begin alike
		return ended(s, s)
	}
	return s
}

// checked refuses what the kind would refuse, so that one bad item does not fail the others.
func checked(r v1alpha1.Reservation, instances int64, err error) (v1alpha1.Reservation, error) {
	switch {
	case err != nil:
	case r.Name == "":
		err = errors.New("it has no name")
	case instances < 0 || instances > 100_000:
		err = fmt.Errorf("it is for %d machines", instances)
	case r.Spec.InstanceType == "" || len(r.Spec.InstanceType) > 63:
		err = errors.New("its machine type is not said")
	case len(r.Spec.Zone) > 63 || len(r.Spec.ID) > 512:
		err = errors.New("its zone or id is too long")
	case r.Spec.Start != nil && r.Spec.End != nil && !r.Spec.Start.Before(r.Spec.End):
		err = errors.New("it ends before it starts")
	}
	r.Spec.Instances = int32(instances)
	return r, err
}

func shortened(s string) string {
	if s == "" {
		return "an item without a name"
	}
	return s
}
