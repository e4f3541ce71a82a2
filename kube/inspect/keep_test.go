package inspect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/diagnose/facts"
)

// fieldsOf calls see with the name of every field of the objects that are gathered.
func fieldsOf(see func(of reflect.Type, name string)) {
	seen := make(map[reflect.Type]bool)
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "fieldsV1" {
				see(t, name)
			}
			walk(t.Field(i).Type)
		}
	}
	for _, k := range facts.Kinds {
		if !k.Foreign {
			walk(reflect.TypeOf(k.New()))
		}
	}
}

// No field of Kubernetes' own is taken for a secret, but for those that hold one or say where one is.
func TestFieldsOfKubernetesStay(t *testing.T) {
	c := newCleaner(&facts.Facts{}, false)
	hidden := map[string]bool{}
	fieldsOf(func(of reflect.Type, name string) {
		if c.secretKey("", name) {
			t.Errorf("field %s of %s reads like a secret", name, of)
		}
		if c.hides(name) {
			hidden[name] = true
		}
	})
	want := map[string]bool{"chapAuthDiscovery": true, "chapAuthSession": true, "credentialBundlePath": true, "gmsaCredentialSpec": true, "keyPath": true, "kubeletConfigKey": true, "secretFile": true, "secrets": true}
	if diff := cmp.Diff(want, hidden); diff != "" {
		t.Error(diff)
	}
}
