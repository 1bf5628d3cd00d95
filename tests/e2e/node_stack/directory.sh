# A real slapd with TLS, a reader and two people, on a machine that has the packages; the test fills in the password.
set -e
export DEBIAN_FRONTEND=noninteractive
debconf-set-selections << ANSWERS
slapd slapd/domain string example.org
slapd shared/organization string Example
slapd slapd/password1 password @PASSWORD@
slapd slapd/password2 password @PASSWORD@
slapd slapd/move_old_database boolean true
ANSWERS
dpkg-reconfigure slapd > /dev/null 2>&1
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=worker0 -addext subjectAltName=DNS:worker0 -keyout /etc/ldap/key.pem -out /etc/ldap/ca.pem 2> /dev/null
chown openldap /etc/ldap/key.pem
ldapmodify -Q -Y EXTERNAL -H ldapi:/// > /dev/null << 'LDIF'
dn: cn=config
changetype: modify
replace: olcTLSCertificateFile
olcTLSCertificateFile: /etc/ldap/ca.pem
-
replace: olcTLSCertificateKeyFile
olcTLSCertificateKeyFile: /etc/ldap/key.pem

dn: olcDatabase={1}mdb,cn=config
changetype: modify
replace: olcAccess
olcAccess: {0}to attrs=userPassword by anonymous auth by * none
olcAccess: {1}to * by dn.exact=cn=reader,dc=example,dc=org read by * none

dn: cn=openssh,cn=schema,cn=config
changetype: add
objectClass: olcSchemaConfig
cn: openssh
olcAttributeTypes: ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
olcObjectClasses: ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
LDIF
sed -i 's#^SLAPD_SERVICES=.*#SLAPD_SERVICES="ldaps:/// ldapi:///"#' /etc/default/slapd
systemctl restart slapd
hash=$(slappasswd -s '@PASSWORD@')
ldapadd -x -D cn=admin,dc=example,dc=org -w '@PASSWORD@' -H ldapi:/// > /dev/null << LDIF
dn: cn=reader,dc=example,dc=org
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: $hash

dn: uid=carol,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: carol
cn: Carol
sn: Example
uidNumber: 5001
gidNumber: 5001
homeDirectory: /home/carol
loginShell: /bin/bash
description: cluster
sshPublicKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk5tdQFZ8nOuT0aPYQ3mXrGqB7qk8pZVZ3oU5t9WnYc carol

dn: uid=dave,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: posixAccount
uid: dave
cn: Dave
sn: Example
uidNumber: 5002
gidNumber: 5001
homeDirectory: /home/dave
loginShell: /bin/bash

dn: cn=carol,dc=example,dc=org
objectClass: posixGroup
cn: carol
gidNumber: 5001

dn: cn=physics,dc=example,dc=org
objectClass: posixGroup
cn: physics
gidNumber: 5100
memberUid: carol
LDIF
