package workload

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// TestStillToBeFilledIn has places that are still to be filled in found where the value cannot stay, and named with the way to fill them in;
// and nothing where any text is allowed.
func TestStillToBeFilledIn(t *testing.T) {
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: (NAME), namespace: (SPACE), labels: {app: (LABEL)}}, spec: {parallelism: (COUNT), template: {spec: {restartPolicy: Never,
  serviceAccountName: (ACCOUNT), nodeSelector: {pool: (POOL)}, containers: [{name: (CONTAINER), image: (IMAGE), args: [(ARG)], env: [{name: A, value: (ENV)}], resources: {limits: {cpu: "1", memory: (AMOUNT)}}}]}}}}`
	fine := map[string]string{"NAME": "n", "SPACE": "s", "LABEL": "l", "COUNT": "1", "ACCOUNT": "a", "POOL": "p", "CONTAINER": "c", "IMAGE": "registry.example/a:1", "ARG": "a", "ENV": "e", "AMOUNT": "1Gi"}
	const envsubst, render, write = "with envsubst for instance", "render the template first", "write a value there"
	for _, c := range []struct{ at, value, says, how string }{
		{"NAME", "${NAME}", "metadata.name: ${NAME}", envsubst},
		{"NAME", "$NAME", "metadata.name: $NAME", envsubst},
		{"NAME", "{{ .Release.Name }}-a", "metadata.name: {{ .Release.Name }}-a", render},
		{"NAME", "<your-name>", "metadata.name: <your-name>", write},
		{"NAME", "REPLACE_ME", "metadata.name: REPLACE_ME", write},
		{"NAME", "My_Job", `metadata.name: "My_Job" is not allowed there`, "lower case"},
		{"NAME", "xxx", "", ""},
		{"SPACE", "<NAMESPACE>", "metadata.namespace: <NAMESPACE>", write},
		{"SPACE", "YOUR_NAMESPACE", "metadata.namespace: YOUR_NAMESPACE", write},
		{"LABEL", "<a>", "metadata.labels.app: <a>", write},
		{"COUNT", "${N}", "spec.parallelism: ${N}", envsubst},
		{"COUNT", "<workers>", "spec.parallelism: <workers>", write},
		{"COUNT", "many", "spec.parallelism is string", "int32"},
		{"ACCOUNT", "<sa>", "spec.template.spec.serviceAccountName: <sa>", write},
		{"POOL", "<pool name>", "spec.template.spec.nodeSelector.pool: <pool name>", write},
		{"CONTAINER", "${C}", "spec.template.spec.containers[0].name: ${C}", envsubst},
		{"IMAGE", "<your-image>", "image of container c: <your-image>", write},
		{"IMAGE", "us-docker.pkg.dev/PROJECT_ID/a/b:latest", "image of container c: us-docker.pkg.dev/PROJECT_ID/a/b:latest", write},
		{"IMAGE", "$REGISTRY/a:1", "image of container c: $REGISTRY/a:1", envsubst},
		{"IMAGE", "registry.example/A:1", "image of container c: \"registry.example/A:1\" is not allowed there", "InvalidImageName"},
		{"IMAGE", "", "containers[0].image: there is none", "none"},
		{"IMAGE", "xxx", "", ""},
		{"IMAGE", "localhost:5000/a/b_c/d--e:v1.2_3@sha256:0123456789012345678901234567890123456789012345678901234567890123", "", ""},
		{"AMOUNT", "${MEMORY}", "spec.template.spec.containers[0].resources.limits.memory: ${MEMORY}", envsubst},
		{"AMOUNT", "xxGi", `spec.template.spec.containers[0].resources.limits.memory: "xxGi" is not allowed there`, "want a quantity"},
		{"AMOUNT", "<memory>", "resources.limits.memory: <memory>", write},
		{"ARG", "{{x}} ${Y} <z>", "", ""},
		{"ENV", "<your-token>", "", ""},
	} {
		text := job
		for at, value := range fine {
			if at == c.at {
				value = c.value
			}
			if value != "1" {
				value = "'" + value + "'"
			}
			text = strings.Replace(text, "("+at+")", value, 1)
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		said := ""
		w, o, err := Of(object, Options{Namespace: "default", UID: func() types.UID { return "u" }})
		switch {
		case err != nil:
			said = err.Error()
		case InvalidMeta(o) != nil:
			said = InvalidMeta(o).Error()
		case Invalid(o) != nil:
			said = Invalid(o).Message
		case Unpullable(&w.Parts[0]) != nil:
			said = Unpullable(&w.Parts[0]).Message
		}
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) || !strings.Contains(said, c.how) {
			t.Errorf("%s: %s: said is %q", c.at, c.value, said)
		}
	}
}

// A label or an annotation that is no text is refused, of kinds too whose types are not known here: none of them would be read.
func TestLabelsAreText(t *testing.T) {
	for text, says := range map[string]string{
		"{apiVersion: a.b/v1, kind: K, metadata: {name: o, labels: {a: 'true'}, annotations: {b: '1', c: }}}": "",
		"{apiVersion: a.b/v1, kind: K, metadata: {name: o, labels: {a: true}}}":                               "metadata.labels.a is no text",
		"{apiVersion: a.b/v1, kind: K, metadata: {name: o, annotations: {a: x, b: 1}}}":                       "metadata.annotations.b is no text",
		"{apiVersion: a.b/v1, kind: K, metadata: {name: o, annotations: [a]}}":                                "metadata.annotations is no object",
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		_, _, err := Of(object, Options{Namespace: "default", UID: func() types.UID { return "u" }})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
