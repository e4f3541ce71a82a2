package mask

import (
	"regexp"
	"slices"
	"strings"
)

// stems are what names of secrets contain, wherever in the name, once it is lower-case and without punctuation:
// PGPASSWORD, dbpassword, userPasswordHash, MASTER_KEY_B64, client-key-data.
var stems = []string{
	"password", "passwd", "passphrase", "passcode", "userpass", "dbpass", "pgpass", "htpasswd",
	"secret", "apikey", "apitoken", "accesskey", "accountkey", "privatekey", "privkey", "secretkey", "sharedkey", "masterkey", "encryptionkey", "signingkey", "userkey", "authkey", "clientkey", "keydata", "keymaterial",
	"credential", "bearer", "cookie", "jwt", "oauth", "connectionstring", "connstr", "stringdata", "masterauth", "mnemonic", "seedphrase", "totp", "otpauth", "authorization", "kubeconfig", "dockerconfig", "dockercfg", "netrc",
}

// foreignStems are those of other languages. Whoever writes them writes sentences in words that nobody here knows.
var foreignStems = []string{
	"passwort", "kennwort", "motdepasse", "contrasena", "senha", "wachtwoord", "losenord", "lösenord", "adgangskode", "passord", "salasana", "jelszo", "jelszó", "lozinka", "slaptazodis", "slaptažodis", "matkhau", "mậtkhẩu", "katasandi", "katalaluan", "contraseña", "geheimnis", "schluessel", "schlüssel", "segredo", "segreto",
	"пароль", "парола", "секрет", "ключ", "κωδικός", "סיסמה", "المرور", "पासवर्ड", "รหัสผ่าน", "密码", "密碼", "口令", "密钥", "密鑰", "私钥", "令牌", "凭证", "凭据", "パスワード", "暗証番号", "秘密", "トークン", "비밀번호", "암호", "비밀키", "토큰",
}

// parts are what names of secrets have as a whole part.
var parts, foreignParts = map[string]bool{}, map[string]bool{}

func init() {
	for _, w := range strings.Fields(`clave claves mdp cle clef chave chiave klucz haslo hasło heslo geslo parola sifre şifre nyckel`) {
		foreignParts[w], parts[w] = true, true
	}
	for _, w := range strings.Fields(`pass passwd pwd psw pw pword token tokens key keys apikey apikeys secret secrets cred creds auth authn sig signature sas dsn salt hmac pin otp mfa totp
		bearer cookie cookies cookiejar passphrase license licence session sessionid sid psk priv phrase pat pem pfx p12 jks keystore truststore`) {
		parts[w] = true
	}
}

// plainEnds are last parts of names that stand for the name or the number of a secret, or for what went wrong with it.
var plainEnds = map[string]bool{"error": true, "exception": true, "failed": true, "failure": true, "expired": true, "invalid": true, "missing": true, "required": true, "type": true, "count": true, "length": true, "size": true, "policy": true, "name": true, "names": true, "ref": true, "refs": true, "namespace": true}

// special are the parts beside which "token" is one that language models read.
var special = []string{"pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop", "special", "image"}

// counts are the parts beside which "tokens" are those of language models.
var counts = []string{"max", "min", "num", "n", "total", "new", "per", "count", "input", "output", "prompt", "completion", "batch", "cached", "generated", "context", "limit", "rate", "second", "seconds", "sec", "s", "k", "mean", "avg"}

// plainWords contain a stem, or end like one, and are no names of secrets.
var plainWords = map[string]bool{
	"tokenizer": true, "tokenize": true, "tokenized": true, "tokenization": true, "monkey": true, "turkey": true, "whiskey": true, "hotkey": true, "keyboard": true, "keynote": true, "bypass": true, "compass": true, "passthrough": true,
	"encompass": true, "authority": true, "author": true, "secretariat": true, "topologykey": true, "labelkey": true, "matchlabelkeys": true, "mismatchlabelkeys": true, "nodelabelkey": true, "publickey": true, "partitionkey": true, "primarykey": true, "foreignkey": true, "sortkey": true,
}

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// Sensitive says whether what the name stands for may be a secret.
func Sensitive(name string) bool {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	if len(name) > 200 {
		return false
	}
	split := fields(name)
	if len(split) == 0 || plainEnds[split[len(split)-1]] {
		return false
	}
	joined := strings.Join(split, "")
	if plainWords[joined] {
		return false
	}
	for i, p := range split {
		if plainWords[p] {
			split[i] = ""
		}
	}
	if slices.Contains(split, "tokens") && slices.ContainsFunc(split, func(p string) bool { return slices.Contains(counts, p) }) {
		return false
	}
	if len(split) <= 3 && slices.Contains(split, "token") && slices.Contains(special, split[0]) {
		return false
	}
	joined = strings.Join(split, "")
	stem := func(s string) bool { return strings.Contains(joined, s) }
	if slices.ContainsFunc(stems, stem) || slices.ContainsFunc(foreignStems, stem) {
		return true
	}
	for _, p := range split {
		bare := strings.TrimRight(p, "0123456789")
		if parts[bare] || len(bare) > 4 && (strings.HasSuffix(bare, "key") || strings.HasSuffix(bare, "token") || strings.HasSuffix(bare, "tokens") || strings.HasSuffix(bare, "pass") || strings.HasSuffix(bare, "passwd") || strings.HasSuffix(bare, "pwd") || strings.HasSuffix(bare, "creds") || strings.HasSuffix(bare, "cred") || strings.HasSuffix(bare, "secret")) ||
			len(bare) > 5 && (strings.HasPrefix(bare, "token") || strings.HasPrefix(bare, "passw") || strings.HasPrefix(bare, "apikey") || strings.HasPrefix(bare, "secret")) {
			return true
		}
	}
	return false
}

// foreign says whether the name of a secret, in small letters, is one in another language than English.
func foreign(name string) bool {
	split := fields(name)
	joined := strings.Join(split, "")
	return slices.ContainsFunc(foreignStems, func(s string) bool { return strings.Contains(joined, s) }) || slices.ContainsFunc(split, func(p string) bool { return foreignParts[p] })
}

// fields are the parts of a name, lower-case: of api_key, apiKey, API-KEY and APIKey they are api and key.
func fields(name string) []string {
	return strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}${3}_${2}${4}")), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r < 0x80
	})
}
