package v1alpha1_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestCRDIsAccepted asks what the API server asks of a CustomResourceDefinition: a structural
// schema, rules that compile and stay within their cost, columns that can be printed.
func TestCRDIsAccepted(t *testing.T) {
	for _, text := range [][]byte{v1alpha1.CRD, v1alpha1.QueueCRD, v1alpha1.ReservationCRD, v1alpha1.FaultCRD} {
		if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), internalCRD(t, text)); len(errs) > 0 {
			t.Error(errs.ToAggregate())
		}
	}
}

func TestCRDNames(t *testing.T) {
	for kind, text := range map[string][]byte{"Pool": v1alpha1.CRD, "BerthQueue": v1alpha1.QueueCRD, "Reservation": v1alpha1.ReservationCRD, "Fault": v1alpha1.FaultCRD} {
		crd := readCRD(t, text)
		got := map[string]string{
			"name": crd.Name, "kind": crd.Spec.Names.Kind, "list": crd.Spec.Names.ListKind,
			"scope": string(crd.Spec.Scope), "version": crd.Spec.Versions[0].Name,
		}
		want := map[string]string{
			"name": v1alpha1.Resource(strings.ToLower(kind) + "s").String(), "kind": kind, "list": kind + "List",
			"scope": "Cluster", "version": v1alpha1.GroupVersion.Version,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if crd.Spec.Versions[0].Subresources.Status == nil {
			t.Errorf("%s has no status subresource", kind)
		}
	}
}

// TestCRDFields walks the Go types and the schema side by side: a field that only one of
// them has is dropped or refused by the API server without a word to us.
func TestCRDFields(t *testing.T) {
	for _, part := range []struct {
		crd  []byte
		name string
		of   reflect.Type
	}{
		{v1alpha1.CRD, "spec", reflect.TypeFor[v1alpha1.PoolSpec]()},
		{v1alpha1.CRD, "status", reflect.TypeFor[v1alpha1.PoolStatus]()},
		{v1alpha1.QueueCRD, "spec", reflect.TypeFor[v1alpha1.QueueSpec]()},
		{v1alpha1.QueueCRD, "status", reflect.TypeFor[v1alpha1.QueueStatus]()},
		{v1alpha1.ReservationCRD, "spec", reflect.TypeFor[v1alpha1.ReservationSpec]()},
		{v1alpha1.ReservationCRD, "status", reflect.TypeFor[v1alpha1.ReservationStatus]()},
		{v1alpha1.FaultCRD, "spec", reflect.TypeFor[v1alpha1.FaultSpec]()},
		{v1alpha1.FaultCRD, "status", reflect.TypeFor[v1alpha1.FaultStatus]()},
	} {
		props := readCRD(t, part.crd).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part.name]
		sameFields(t, part.name, part.of, &props)
	}
}

func sameFields(t *testing.T, path string, typ reflect.Type, schema *apiextensionsv1.JSONSchemaProps) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ.Kind() == reflect.Slice {
			schema = schema.Items.Schema
		}
		typ = typ.Elem()
	}
	leaf := typ == reflect.TypeFor[resource.Quantity]() || typ == reflect.TypeFor[metav1.Duration]() || typ == reflect.TypeFor[metav1.Time]()
	if typ.Kind() != reflect.Struct || leaf {
		return
	}
	fields := map[string]reflect.Type{}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	want, got := slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(schema.Properties))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-Go +CRD):\n%s", path, diff)
	}
	for name, field := range fields {
		props := schema.Properties[name]
		sameFields(t, path+"."+name, field, &props)
	}
}

// TestCRDTakesFleetFiles gives every fleet file of the repository to the API server's own
// validation, as kubectl apply would, without our defaults.
func TestCRDTakesFleetFiles(t *testing.T) {
	presets, _ := filepath.Glob("../../fleet/file/presets/*.yaml")
	examples, _ := filepath.Glob("../../examples/fleet-*.yaml")
	paths := slices.Concat(presets, examples)
	if len(presets) == 0 || len(examples) == 0 {
		t.Fatalf("no fleet files in %v", paths)
	}
	validate := serverValidation(t, v1alpha1.CRD)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			if errs := validate(parse(t, doc)); len(errs) > 0 {
				t.Errorf("%s: %v", path, errs.ToAggregate())
			}
		}
	}
}

// parse reads an object as the API server holds it.
func parse(t *testing.T, doc string) map[string]any {
	t.Helper()
	var object map[string]any
	text, err := yaml.YAMLToJSON([]byte(doc))
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// serverValidation is what the API server does to an object it is given: defaults, schema, keys of lists, then rules.
func serverValidation(t *testing.T, crd []byte) func(object map[string]any) field.ErrorList {
	schema := internalCRD(t, crd).Spec.Validation.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(schema)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return func(object map[string]any) field.ErrorList {
		defaulting.Default(object, structural)
		errs := validation.ValidateCustomResource(nil, object, validator)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, object)...)
		if len(errs) > 0 {
			return errs
		}
		errs, _ = rules.Validate(t.Context(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
		return errs
	}
}

func readCRD(t *testing.T, text []byte) *apiextensionsv1.CustomResourceDefinition {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

// internalCRD is the CRD as the API server holds it, where the only version's schema has
// moved to the top.
func internalCRD(t *testing.T, text []byte) *apiextensions.CustomResourceDefinition {
	crd := readCRD(t, text)
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{v1alpha1.GroupVersion.Version}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil); err != nil {
		t.Fatal(err)
	}
	return &internal
}
