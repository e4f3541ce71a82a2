package answer

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"testing"
)

// FuzzReadTrust reads any ConfigMap about front proxies. Nobody is trusted without a root, and with an error nobody at all.
func FuzzReadTrust(f *testing.F) {
	f.Add("", `["front-proxy-client"]`, `["X-Remote-User"]`, `["X-Remote-Extra-"]`)
	f.Add("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", `[]`, `["X-Remote-User"]`, `[""]`)
	f.Add("x", `{`, `null`, `[1]`)
	f.Fuzz(func(t *testing.T, pem, names, user, extra string) {
		got, err := readTrust(map[string]string{
			"requestheader-client-ca-file": pem, "requestheader-allowed-names": names, "requestheader-username-headers": user, "requestheader-extra-headers-prefix": extra,
		})
		if (err != nil || pem == "") && got.roots != nil {
			t.Errorf("trusted all the same: %v", err)
		}
		if got.vouches(nil) || got.vouches([]*x509.Certificate{{}}) {
			t.Error("it vouches for a certificate of nobody")
		}
		if text, _ := json.Marshal(got.names); err == nil && pem != "" && names == "" && string(text) != "null" {
			t.Errorf("names %s", text)
		}
	})
}

// FuzzExtras reads any header of a front proxy: what is not of the prefix is not taken.
func FuzzExtras(f *testing.F) {
	f.Add("X-Remote-Extra-", "X-Remote-Extra-Scopes", "a")
	f.Add("X-Remote-Extra-", "X-Remote-Extra-%zz", "a")
	f.Add("", "X", "a")
	f.Fuzz(func(t *testing.T, prefix, name, value string) {
		got := trust{extra: []string{prefix}}.extras(http.Header{name: {value}})
		if len(got) > 0 && len(name) <= len(prefix) {
			t.Errorf("%q is taken for one of %q: %v", name, prefix, got)
		}
	})
}
