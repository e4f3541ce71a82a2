package policy

import "testing"

// Every policy comes with a binding of its name, without which it does nothing.
func TestEveryPolicyIsBound(t *testing.T) {
	list, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	for _, m := range list {
		if has[m.Path] {
			t.Errorf("%s is there twice", m.Path)
		}
		has[m.Path] = true
	}
	const group = "/apis/admissionregistration.k8s.io/v1/"
	for _, kind := range []string{"mutating", "validating"} {
		for path := range has {
			var name string
			if n := len(group + kind + "admissionpolicies/"); len(path) > n && path[:n] == group+kind+"admissionpolicies/" {
				name = path[n:]
			}
			if name != "" && !has[group+kind+"admissionpolicybindings/"+name] {
				t.Errorf("%s has no binding", path)
			}
		}
	}
}

func TestOnlyPoliciesAreRead(t *testing.T) {
	for _, text := range []string{"", "kind: Pod\napiVersion: v1\nmetadata: {name: x}", "{"} {
		if m, err := read([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, m)
		}
	}
}
