// Package userdata reads an instance's user data as the node itself would at
// its first boot: bootstrap.sh calls in MIME parts (Amazon Linux 2), NodeConfig
// documents that are merged (Amazon Linux 2023), settings in TOML
// (Bottlerocket). The result is which cluster the node would join and how its kubelet
// is configured.
//
// It refuses what it cannot read with certainty, a shell expansion in an
// argument for instance, because an assumption would make a node join that in the real
// environment would not. Errors never repeat the text of the user data: it may hold
// secrets.
//
// Start reading at Parse.
package userdata
