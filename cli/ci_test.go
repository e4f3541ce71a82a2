package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// repository is a folder with manifests of which the second can never start, a fleet, and berth on the PATH.
func repository(t *testing.T) (dir string, environ []string) {
	t.Helper()
	bin, dir := t.TempDir(), t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job := func(name, gpus string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + "}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n" +
			"      containers:\n      - {name: a, image: x, resources: {limits: {nvidia.com/gpu: " + gpus + "}}}\n"
	}
	fleet := "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: h100}\nspec:\n  nodes: 2\n  gpus: [{model: H100, count: 8}]\n"
	if err := errors.Join(os.Symlink(program, filepath.Join(bin, "berth")), os.MkdirAll(filepath.Join(dir, "manifests"), 0o700),
		os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(fleet), 0o600),
		os.WriteFile(filepath.Join(dir, "manifests", "a good one.yaml"), []byte(job("good", "8")), 0o600),
		os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte(job("bad", "9")), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir, append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "BERTH_HOME="+t.TempDir(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
}

// does runs a command in the folder, and returns its exit code and all that it prints.
func does(t *testing.T, dir string, environ []string, name string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ, &out, &out
	err := cmd.Run()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatalf("%s does not run here: %v", name, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// step is one of a workflow or a composite action.
type step struct {
	Name, Uses, Run, Shell string
	Env                    map[string]string
}

// runs plays the script of a step as GitHub's runner does: with bash, which ends at the first command that fails.
func (s *step) runs(t *testing.T, dir string, environ []string, inputs map[string]string) (int, string) {
	t.Helper()
	input := regexp.MustCompile(`\$\{\{ *inputs\.([a-z-]+) *\}\}`)
	for name, value := range s.Env {
		environ = append(environ, name+"="+input.ReplaceAllStringFunc(value, func(m string) string { return inputs[input.FindStringSubmatch(m)[1]] }))
	}
	if strings.Contains(s.Run, "${{") {
		t.Errorf("the script has an input in it, which could be code: %s", s.Run)
	}
	return does(t, dir, environ, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
}

// TestGitHubAction plays action.yml on good and bad manifests.
func TestGitHubAction(t *testing.T) {
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []step }
	}
	readYAML(t, "../action.yml", &action)
	dir, environ := repository(t)
	for _, c := range []struct {
		name   string
		inputs map[string]string
		code   int
		says   string
	}{
		{"good", map[string]string{"fleet": "fleet.yaml", "sarif": "check.sarif"}, exitOK, "::notice file=manifests/a good one.yaml,line=1,title=job/good starts::"},
		{"bad", map[string]string{"fleet": "fleet.yaml", "sarif": "check.sarif", "files": "manifests/\nbad.yaml\n"}, exitFailed, "::error file=bad.yaml,line=1,title=job/bad never::"},
		{"an input that would be code", map[string]string{"fleet": "fleet.yaml", "files": "$(touch pwned)"}, exitUsage, "no such file"},
		{"wrong usage", map[string]string{"fleet": "fleet.yaml", "fail-on": "x"}, exitUsage, "use never or waits"},
		{"nobody to ask", map[string]string{}, exitUnknown, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inputs := make(map[string]string)
			for name, input := range action.Inputs {
				inputs[name] = input.Default
			}
			for name, value := range c.inputs {
				inputs[name] = value
			}
			os.Remove(filepath.Join(dir, "check.sarif"))
			code, out := 0, ""
			for i := range action.Runs.Steps {
				if code, out = action.Runs.Steps[i].runs(t, dir, append(environ, "KUBECONFIG=nowhere"), inputs); code != 0 {
					break
				}
			}
			if code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("code %d, %s", code, out)
			}
			if inputs["sarif"] != "" {
				data, _ := os.ReadFile(filepath.Join(dir, "check.sarif"))
				if !json.Valid(data) || !bytes.Contains(data, []byte(`"version": "2.1.0"`)) {
					t.Errorf("no SARIF: %.200s", data)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("an input was run")
			}
		})
	}
}

// TestWorkflow plays the scripts of the workflow in examples/ci; what others' actions do is left out.
func TestWorkflow(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct{ Steps []step }
	}
	readYAML(t, "../examples/ci/github-action.yaml", &workflow)
	dir, environ := repository(t)
	play := func() (code int) {
		for _, s := range workflow.Jobs["check"].Steps {
			if s.Run != "" && !strings.HasPrefix(s.Run, "go install ") {
				c, out := s.runs(t, dir, environ, nil)
				t.Log(out)
				code = max(code, c)
			}
		}
		return code
	}
	if code := play(); code != exitOK {
		t.Errorf("good manifests: code %d", code)
	}
	if err := os.Rename(filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "manifests", "bad.yaml")); err != nil {
		t.Fatal(err)
	}
	if code := play(); code != exitFailed {
		t.Errorf("bad manifests: code %d", code)
	}
}

// TestPreCommitHook has git run the hook of examples/ci as pre-commit does: with the staged files that match.
func TestPreCommitHook(t *testing.T) {
	var config struct {
		Repos []struct {
			Hooks []struct{ ID, Entry, Files string }
		}
	}
	readYAML(t, "../examples/ci/pre-commit-config.yaml", &config)
	hook := config.Repos[0].Hooks[0]
	files := regexp.MustCompile(hook.Files)
	dir, environ := repository(t)
	if code, out := does(t, dir, environ, "git", "init", "-q"); code != 0 {
		t.Fatal(out)
	}
	script := "#!/bin/sh\ngit diff --cached --name-only -z --diff-filter=ACM | grep -zE '" + hook.Files + "' | xargs -0 -r " + hook.Entry + "\n"
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o700), os.WriteFile(filepath.Join(dir, ".git", "hooks", "pre-commit"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	commits := func() (int, string) {
		does(t, dir, environ, "git", "add", "manifests", "fleet.yaml")
		return does(t, dir, environ, "git", "commit", "-qm", "manifests")
	}
	if code, out := commits(); code != 0 || !strings.Contains(out, "job/good") {
		t.Errorf("a good manifest is not committed: code %d, %s", code, out)
	}
	if err := os.Rename(filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "manifests", "bad.yaml")); err != nil {
		t.Fatal(err)
	}
	if code, out := commits(); code == 0 || !strings.Contains(out, "job/bad") || strings.Contains(out, "job/good") {
		t.Errorf("what can never start is committed: code %d, %s", code, out)
	}
	if files.MatchString("docs/a.yaml") || !files.MatchString("manifests/a.yml") {
		t.Errorf("the hook is for other files: %s", hook.Files)
	}
}
