object 927c3c76f735dea5cd9fa000d539d4b40423bcc8
type commit
tag v-gpg
tagger Ada <ada@example.com> 1795827797 +0000

release by gpg
-----BEGIN PGP SIGNATURE-----

iIYEABYIAC4WIQSt+Wsnh7hXmIkGuDQhKnoSJTt1xQUCawooVRAcYWRhQGV4YW1w
bGUuY29tAAoJECEqehIlO3XFhqIBAP21xb/XqrOgwQbMFcCZs8EOA7R4dLZiuiIF
koLKf8PmAQCOHsnE76+ID3lb0hdRw6GsKpbvI5MM0fAIqXgyXttWBQ==
=qKi9
-----END PGP SIGNATURE-----
