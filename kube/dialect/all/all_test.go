package all

import "testing"

// TestKinds: no two dialects read the same kind, and each is found by its name.
func TestKinds(t *testing.T) {
	seen := make(map[string]string)
	for _, d := range Dialects() {
		if Find(d.Name()) == nil {
			t.Errorf("%s is not found", d.Name())
		}
		for _, k := range d.Kinds() {
			if by := seen[k.Name()]; by != "" {
				t.Errorf("%s is of %s and of %s", k.Name(), by, d.Name())
			}
			seen[k.Name()] = d.Name()
		}
	}
}
