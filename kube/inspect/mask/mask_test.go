package mask

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestSensitive(t *testing.T) {
	for _, name := range strings.Fields(`PGPASSWORD dbpassword secretkey restuserkey accountkey API_KEY_1 GITHUB_TOKEN_RO TOKENS MASTER_KEY_B64 client-key-data DB_PASS smtpPwd apiToken X-Auth-Token example.com/api-token
		AWS_SECRET_ACCESS_KEY privateKeyPem oauth2ClientSecret SAS_TOKEN kdbxPassword sessionCookie jwtSigningKey`) {
		if !Sensitive(name) {
			t.Errorf("%s is the name of a secret", name)
		}
	}
	for _, name := range strings.Fields(`tokenizer max_tokens max-new-tokens tokens_per_second secretName secretRef provisioner-secret-name topologyKey monkey bypass author KeyError TokenExpired password_length image queue nodeName`) {
		if Sensitive(name) {
			t.Errorf("%s is not", name)
		}
	}
}

// Rules of gitleaks are data of another project: all of them can be read and compiled.
func TestRulesCompile(t *testing.T) {
	n := 0
	for _, list := range rules().byStart {
		for _, k := range list {
			for _, r := range k.rules {
				if n++; r.regexp() == nil {
					t.Errorf("%s does not compile", r.text)
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("%d rules", n)
	}
}

// FuzzText: what is masked stays masked and nothing more goes; a planted secret does not survive under the name of one.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "password=x", `{"token":"a\"b"}`, "-----BEGIN X PRIVATE KEY-----\nabc", "postgres://u:p@h/x", "a: |\n  b\n", "%70%61ss=%3d", `\u0070assword: x`, "secret \"creds\" not found", "<password>x</password>", "\xff\xfe", "key key key: ="} {
		f.Add(s, "hunter2")
	}
	f.Fuzz(func(t *testing.T, s, secret string) {
		for _, strict := range []bool{false, true} {
			m := &Masker{Strict: strict, Names: map[string]bool{"train-0": true}}
			once := m.Text(s)
			if again := m.Text(once); again != once {
				t.Errorf("strict %v: %q became %q, and then %q", strict, s, once, again)
			}
		}
		if len(secret) < 6 || strings.ContainsAny(secret, " \t\r\n<>\"'`\\%&") || strings.Contains(Mask, secret) || strings.Contains("password", secret) || strings.Contains(s, secret) || !ascii(secret) {
			return
		}
		var m Masker
		for _, text := range []string{"password=" + secret, s + "\npassword=" + secret, `{"password":"` + secret + `"}`, "--password " + secret} {
			if out := m.Text(text); strings.Contains(out, secret) {
				t.Errorf("%q became %q", text, out)
			}
		}
	})
}

// Texts that are put together at random from what means something to the steps are masked once and for all.
func TestMaskedStaysMasked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"password", "token", "secret", "key", "api key", "Authorization", "=", ":", " ", "  ", "\n", "\"", "'", "\\\"", "{", "}", "[", "]", "(", ",", ";", "<", ">", "|", "-", "--", "-p", "@", "://", "?", "&", "%3D", "\\u003d", "&quot;", Mask, "MASKED-1", "hunter2", "x7Kq92mZp0", "train-0", "node", "is", "not found", "mysql", "aGVsbG8gd29ybGQ=", "-----BEGIN X-----", "-----END X-----", "eyJhbGciOiJIUzI1NiJ9", "2026-11-15T12:00:00Z", "é", "\xff", "name", "value", "p", "$", "#", "!"}
	for range 20000 {
		var b strings.Builder
		for range 1 + r.IntN(9) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		for _, strict := range []bool{false, true} {
			m := &Masker{Strict: strict, Names: map[string]bool{"train-0": true}}
			once := m.Text(b.String())
			if again := m.Text(once); again != once {
				t.Fatalf("strict %v: %q became %q, and then %q", strict, b.String(), once, again)
			}
		}
	}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// A quarter of a mebibyte, whatever is in it, takes tenths of a second; were any step quadratic, it would take minutes.
func TestTimeIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time, which the race detector stretches")
	}
	for _, unit := range []string{"password=", "a:", "-----BEGIN ", "{\"key\":", "token ", "((((", "\\\"", "eyJ", "%25", "x7K", "://@", "key: \n  ", "- p ", "mysql -p"} {
		var m Masker
		start := time.Now()
		m.Text(strings.Repeat(unit, 256<<10/len(unit)))
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%q: %s", unit, took)
		}
	}
}
