package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// FuzzPool checks any Pool, with its defaults filled in. Nothing panics, and defaults are filled in once.
func FuzzPool(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"p"},"spec":{"count":3}}`,
		`{"metadata":{"name":"p"},"spec":{"count":-1,"gpu":{"model":"H100","count":8}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p v1alpha1.Pool
		if json.Unmarshal(data, &p) != nil {
			return
		}
		v1alpha1.Default(&p)
		once, err := json.Marshal(p)
		if err != nil {
			return // an amount that cannot be written
		}
		v1alpha1.Default(&p)
		if twice, _ := json.Marshal(p); string(twice) != string(once) {
			t.Errorf("defaults of defaults: %s, before %s", twice, once)
		}
		v1alpha1.Validate(&p)
	})
}
