package scheduler

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/policy"
)

// The policy that keeps tenants from editing keys in vain knows all of them, and who Berth is.
func TestThePolicyKnowsEveryKey(t *testing.T) {
	list, err := policy.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(m policy.Manifest) bool {
		return strings.HasSuffix(m.Path, "/validatingadmissionpolicies/berth-terms")
	})
	if i < 0 {
		t.Fatal("there is no policy berth-terms")
	}
	text := string(list[i].Text)
	_, keys, _ := strings.Cut(text, "- name: keys")
	keys, _, _ = strings.Cut(keys, "]")
	var got []string
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(keys, -1) {
		got = append(got, m[1])
	}
	want := convert.GuardedKeys()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, word := range []string{User, string(convert.Admitted), cluster.DefaultName} {
		if !strings.Contains(text, `"`+word+`"`) {
			t.Errorf("the policy does not know %s", word)
		}
	}
}
