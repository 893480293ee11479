// Package policy decides as AWS IAM does whether a request is allowed. It emulates this
// part of IAM, and a document that needs more is an error:
//
//   - policies that are attached to an identity, of version 2012-10-17, and one
//     permissions boundary, which what they allow must allow, too;
//   - Effect, Sid, Action and NotAction, Resource and NotResource with the
//     wildcards * and ?; in an ARN no wildcard reaches beyond its own one of the
//     first five parts but a * that ends one, and the sixth is matched as a whole;
//   - Condition with StringEquals, StringLike, ArnEquals, ArnLike (which compare
//     part by part), their negations (StringNotEquals and so on), Bool and Null;
//     with IfExists, and with ForAllValues: and ForAnyValue:;
//   - names of actions and of condition keys in any case, all else as written.
//
// It refuses everything else when it parses: policies of resources (Principal),
// policy variables, other operators, other versions, fields that IAM does not have,
// JSON that names a key twice. So nothing is ever allowed because it could not be
// parsed. It has no table of services: what a call needs of IAM comes from the caller.
// Not emulated are policies of organisations and of sessions, policies of resources, and
// tags of principals. Start reading at Evaluate.
package policy
