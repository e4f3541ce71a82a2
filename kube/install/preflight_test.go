package install

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
)

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		major, minor string
		want         Level
	}{
		{"1", "29", Fail},
		{"1", "30", Warn}, {"1", "34", Warn}, // it should work, and nobody has tried
		{"1", "35", OK}, {"1", "36+", OK}, {"1", "37", OK},
		{"1", "38", Warn}, {"2", "0", Warn}, {"1", "", Warn},
	} {
		client := fake.NewClientset()
		client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &apiversion.Info{Major: c.major, Minor: c.minor, GitVersion: "v" + c.major + "." + c.minor + ".0"}
		got, err := checkVersion(context.Background(), client)
		if err != nil || len(got) != 1 || got[0].Level != c.want {
			t.Errorf("%s.%s: %v, %v, want %s", c.major, c.minor, got, err, c.want)
		}
	}
}

// A kind that is not served is named once, with what holds without it, and is no error: neither where its group is unknown, nor where the
// group has other kinds or other versions.
func TestKindsThatAreNotServed(t *testing.T) {
	kinds := []string{"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy", "scheduling.k8s.io/v1beta1 PodGroup", "resource.k8s.io/v1 DeviceClass"}
	serve := func(names ...string) (out []*metav1.APIResourceList) {
		for _, name := range names {
			gv, kind, _ := strings.Cut(name, " ")
			out = append(out, &metav1.APIResourceList{GroupVersion: gv, APIResources: []metav1.APIResource{{Kind: kind}}})
		}
		return out
	}
	for name, c := range map[string]struct {
		served  []*metav1.APIResourceList
		without int
	}{
		"nothing":                  {nil, 3},
		"all":                      {serve(kinds...), 0},
		"all but one":              {serve(kinds[1:]...), 1},
		"other kinds of the group": {serve("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "scheduling.k8s.io/v1 PriorityClass"), 3},
		"older versions":           {serve("admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy", "scheduling.k8s.io/v1alpha2 PodGroup", "resource.k8s.io/v1beta1 DeviceClass"), 3},
	} {
		client := fake.NewClientset()
		client.Resources = c.served
		got, err := checkGates(context.Background(), client)
		if err != nil || len(got) != len(kinds) {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		without := 0
		for i, f := range got {
			if f.Level == Warn {
				without++
			}
			if gv, kind, _ := strings.Cut(kinds[i], " "); f.Level == Fail || !strings.Contains(f.Text, kind) || f.Level == Warn && !strings.Contains(f.Text, gv) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if without != c.without {
			t.Errorf("%s: %d are missing, want %d: %v", name, without, c.without, got)
		}
	}
}
